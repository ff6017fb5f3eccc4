package stapsdt

import (
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// cut returns as much of a string as a tracer can see before the NUL.
func cut(s string) string { return s[:min(len(s), MaxString-1)] }

// convert converts the variables at the addresses in args, of the types in p.args, into
// words, and calls the probe's observers with them. enter reads pointers again, because they
// may point into the goroutine's stack, which can still move.
func (p *Probe) convert(a *words.Arguments, args []unsafe.Pointer) {
	a.Reserve(p.strings * MaxString)
	for i, t := range p.args {
		// SAFETY: args[i] is the address of a variable in the frame of the typed
		// fire that called convert, and argTypeOf derived p.args[i] from the variable's
		// type. A []byte is read as a string: its first two words are the same, and
		// the bytes are only read, before Fire returns.
		switch arg := args[i]; t {
		case String:
			a.Words[i] = a.Texts.Add(cut(*(*string)(arg)))
		case Time:
			a.Words[i] = uint64(kind.FromTime(*(*time.Time)(arg)))
		default:
			a.Words[i] = words.Load(int8(t), arg)
		}
	}
}
