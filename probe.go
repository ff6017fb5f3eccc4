package stapsdt

import (
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// Probe is a trace point of a provider: a name and the types of its arguments. AddProbe
// returns one, and every typed probe contains one. A Probe must not be copied.
//
// Its methods may be called from any goroutine at any time: before the provider is
// loaded, while it is being unloaded, and after it has been closed.
//
// The zero Probe has no name and no provider. Its Fire and Enabled panic, because a test
// for it would add an instruction to every Fire. So do all methods of a nil Probe.
type Probe struct {
	// at is a *byte, which on tests: observedByte while the probe is observed, and
	// otherwise the same as site. It is never nil once the probe is defined, and is read
	// and written atomically. It is the first field: see Probe6.Fire and call.Enabled.
	at unsafe.Pointer
	// site is a *byte, the first byte of the site, which package call tests again and
	// enters: a site of the mapped image while the provider is loaded, and noSite
	// otherwise. It is never nil either, and is read and written atomically.
	site unsafe.Pointer

	_ noCopy

	provider *Provider
	name     string
	args     []ArgType

	// first is the provider's first probe of this name, or nil if the provider does not have this
	// probe. All sites of the name have the first one's names.
	first *Probe
	names atomic.Pointer[[]string] // names of the arguments, or nil
	types []reflect.Type           // Go types of the arguments, of a typed probe or a first one

	kinds   [MaxArgs]Kind // kinds of the arguments' values
	index   int32         // index in the provider's probes
	strings int           // the number of Strings in args

	sinks atomic.Pointer[sinks] // what sees its fires in the program, or nil
	// a bit for each argument of a typed probe: whether it is a pointer
	pointers uint16
}

// The constant is not negative, or else this does not compile.
const _ = -unsafe.Offsetof(Probe{}.at)

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// noSite is the site of every probe that is not loaded. Its first byte reads as idle, and
// nothing patches it.
var noSite = [1]byte{call.Idle}

// init initializes p as a probe that is not loaded.
func (p *Probe) init(provider *Provider, name string, args []ArgType) {
	p.provider, p.name, p.args = provider, name, args
	for i, t := range args {
		if t == String {
			p.strings++
		}
		if i < MaxArgs {
			p.kinds[i] = p.kindOf(i)
		}
	}
	p.move(&noSite[0])
}

// move points the probe at another site and returns the previous one.
func (p *Probe) move(site *byte) (old *byte) {
	// SAFETY: a site is a byte of a mapping that outlives the probe, or of a variable.
	old = (*byte)(atomic.SwapPointer(&p.site, unsafe.Pointer(site)))
	if !p.observed() {
		atomic.StorePointer(&p.at, unsafe.Pointer(site))
	}
	return old
}

// patched reports whether a tracer is attached to a site.
func patched(site *byte) bool { return *site&call.Mask == call.Bits }

// on reports whether the probe's site is patched, or the probe is observed. It loads an
// address and the byte there, and compares.
//
// The mapping must outlast the read, so p must stay alive until then. The callers ensure
// this: they use p afterwards if the result is true, and the compiler cannot know the
// result in advance.
func (p *Probe) on() bool {
	return *(*byte)(atomic.LoadPointer(&p.at))&call.Mask == call.Bits
}

// Name returns the probe's name.
func (p *Probe) Name() string { return p.name }

// Provider returns the provider that the probe was defined with. It may be nil.
func (p *Probe) Provider() *Provider { return p.provider }

// String returns "provider:probe", the notation that tracers use.
func (p *Probe) String() string { return p.provider.Name() + ":" + p.name }

// Traced reports whether a tracer is attached to this probe in this process. Unlike Enabled,
// it does not count observers. Like Enabled, it is advisory.
func (p *Probe) Traced() bool {
	if p.provider.zero() {
		return false
	}
	traced := patched((*byte)(atomic.LoadPointer(&p.site)))
	runtime.KeepAlive(p)
	return traced
}

// Enabled reports whether a tracer is attached to this probe in this process, or the
// probe is observed. Use it to avoid computing arguments that no tracer sees. The result
// is advisory: a tracer may attach or detach at any moment, and Fire may be called in either
// case.
func (p *Probe) Enabled() bool {
	on := p.on()
	runtime.KeepAlive(p)
	return on
}

// Fire reports an event with its arguments to the tracers that are attached to the probe,
// and to its observers. While there are none, it does nothing, and returns nil.
//
// An argument is an integer of any type whose value the ArgType can hold, a bool, a
// uintptr or an unsafe.Pointer. For a String it is a string or a []byte, which is passed
// as a NUL-terminated copy of at most MaxString bytes, valid until Fire returns. The
// memory that a pointer refers to is also kept alive until then. For a Float32 the
// argument is a float32, for a Float64 a float32 or a float64, and for a Time a time.Time.
//
// The arguments are checked only while there is a tracer or an observer. If they are wrong,
// no event is reported, and Fire returns an *Error that wraps ErrArgCount or ErrArgType.
func (p *Probe) Fire(args ...any) error {
	if p.on() {
		return p.fireAny(args)
	}
	return nil
}

// fireAny fires a probe that was found enabled.
func (p *Probe) fireAny(args []any) error {
	if len(args) != len(p.args) {
		return p.fireError(fmt.Errorf("%w: got %d, want %d", ErrArgCount, len(args), len(p.args)))
	}
	var a words.Arguments
	a.Reserve(p.strings * MaxString)
	var variables [MaxArgs]unsafe.Pointer
	var pointers uint16
	for i, arg := range args {
		t := p.args[i]
		w, text, kind := t.word(arg)
		switch kind {
		case wordArg:
			a.Words[i] = w
		case textArg:
			a.Words[i] = a.Texts.Add(cut(text))
		case pointerArg:
			// SAFETY: the second word of an interface that holds a pointer is the pointer.
			variables[i] = unsafe.Add(unsafe.Pointer(&args[i]), unsafe.Sizeof(uintptr(0)))
			pointers |= 1 << i
			a.Words[i] = uint64(*(*uintptr)(variables[i])) // the observers read the words
		default:
			a.Release()
			return p.argError(i, arg)
		}
	}
	p.notify(&a)
	if pointers == 0 && len(p.args) <= call.MaxRegs {
		call.WithRegisters(&p.site, a.Registers()) // like a typed probe
	} else {
		p.enter(&a.Words, variables[:], pointers)
	}
	a.Release()
	keepAlive(args)
	runtime.KeepAlive(p)
	return nil
}

// enter enters the site with words as the arguments. It reads pointer arguments only now,
// from the variables that hold them, because they may point into this goroutine's stack,
// which could still move before. It reports whether a tracer was still attached, because
// the answer of on may be out of date.
//
// A nosplit function is not preempted, and neither is the assembly that it calls
// (isAsyncSafePoint in runtime/preempt.go). enter must not be inlined, as a profile might
// suggest: its code would then belong to a caller that can be preempted.
//
//go:nosplit
//go:noinline
func (p *Probe) enter(
	words *[MaxArgs]uint64, variables []unsafe.Pointer, pointers uint16,
) (fired bool) {
	for i := 0; pointers != 0; i, pointers = i+1, pointers>>1 {
		if pointers&1 != 0 {
			// SAFETY: variables[i] is the address of the caller's variable, whose type
			// is a pointer.
			words[i] = uint64(*(*uintptr)(variables[i]))
		}
	}
	// SAFETY: site satisfies the requirements of package call: its mapping is not
	// released before the provider and all of its probes become unreachable, and p is
	// alive.
	if len(p.args) <= call.MaxRegs {
		fired = call.WithRegisters(&p.site, (*[call.MaxRegs]uint64)(words[:]))
	} else {
		fired = call.WithStack(&p.site, words)
	}
	runtime.KeepAlive(p)
	return fired
}

func (p *Probe) fireError(err error) error {
	err = &Error{Op: "fire", Provider: p.provider.Name(), Probe: p.name, Err: err}
	if p.provider != nil {
		p.provider.misfires.Report(err)
	}
	return err
}

// argError returns the error for a value that the argument's type cannot hold. The message
// has the name of the value's type instead of the value, so that the value does not escape
// to the heap.
func (p *Probe) argError(i int, arg any) error {
	name := "nil"
	if t := reflect.TypeOf(arg); t != nil {
		name = t.String()
	}
	return p.fireError(fmt.Errorf("%w: argument %d has the type %v, which cannot hold this %s", ErrArgType, i, p.args[i], name))
}
