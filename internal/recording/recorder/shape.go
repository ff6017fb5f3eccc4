package recorder

import (
	"sync/atomic"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// shape tells how the variables that a probe is fired with become a record. The assembly reads it.
type shape struct {
	// head is the head of a record without the sizes of its texts, or 0 as long as the probe
	// has no number. It is accessed atomically.
	head  uint64
	at    *unsafe.Pointer // points to the Writer's
	n     uint64          // the number of arguments
	texts uint64          // the number of those that are strings
	// loads has, for each argument, kind.TypeString or the type whose word words.Load returns,
	// as in recording.Arg. Types that are loaded in the same way are one here.
	loads [recording.MaxArgs]int8
}

// shapeOf returns the shape of the records of a probe with these arguments.
func shapeOf(w *Writer, args []recording.Arg) (s shape) {
	s.at, s.n = &w.at, uint64(len(args))
	for i, a := range args {
		switch s.loads[i] = a.Type; a.Type {
		case kind.TypeString:
			s.texts++
		case -8, kind.TypeFloat32 + 4:
			s.loads[i] = 8
		case kind.TypeFloat32:
			s.loads[i] = 4
		}
	}
	return s
}

// setNumber sets the probe's number in the recording.
func (s *shape) setNumber(number uint32) {
	atomic.StoreUint64(&s.head, uint64(number)<<32|recording.RecordHeadBytes+8*s.n)
}

// converted returns the shape of a fire whose numbers were converted to words.
func (s *shape) converted() (c shape) {
	c.at, c.n, c.texts, c.loads = s.at, s.n, s.texts, s.loads
	c.head = atomic.LoadUint64(&s.head)
	for i := range c.n {
		if c.loads[i] != kind.TypeString {
			c.loads[i] = 8
		}
	}
	return c
}

// variable returns the address of the variable that the i-th argument has.
func variable(args unsafe.Pointer, i uint64) unsafe.Pointer {
	// SAFETY: args is the address of as many pointers as the probe has arguments.
	return unsafe.Slice((*unsafe.Pointer)(args), i+1)[i]
}

// text returns the text of a string, of which a record has at most MaxText bytes.
func text(variable unsafe.Pointer) string {
	// SAFETY: the argument's type is a string.
	t := *(*string)(variable)
	return t[:min(len(t), recording.MaxText)]
}

// headOf returns the head of a record of these arguments.
func (s *shape) headOf(args unsafe.Pointer) uint64 {
	head := atomic.LoadUint64(&s.head)
	for i := range s.n {
		if s.loads[i] == kind.TypeString {
			head += paddedLength(text(variable(args, i)))
		}
	}
	return head
}

// store stores the words and texts of a record, which has room for them.
func (s *shape) store(b []byte, args unsafe.Pointer) {
	texts := b[8*s.n:]
	for i := range s.n {
		at := variable(args, i)
		word := words.Load(s.loads[i], at)
		if s.loads[i] == kind.TypeString {
			t := text(at)
			word = uint64(len(t))
			texts = storeText(texts, t)
		}
		le.PutUint64(b[8*i:], word)
	}
}

// storeText stores a text, and returns what follows it.
func storeText(b []byte, text string) []byte {
	clear(b[copy(b, text):paddedLength(text)])
	return b[paddedLength(text):]
}

// paddedLength returns the number of bytes that a text takes in a record.
func paddedLength(text string) uint64 { return (uint64(len(text)) + 8) &^ 7 }
