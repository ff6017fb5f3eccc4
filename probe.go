package stapsdt

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
)

// Probe is a trace point of a provider: a name, and the types of its arguments.
// Its methods may be called from any goroutine at any time, before the provider
// is loaded, while it is unloaded and after it was closed. A Probe comes from
// AddProbe, or is part of a typed one; the zero Probe cannot be used, and none may
// be copied.
type Probe struct {
	// at is a *byte, the first of the site: of one in the mapped image while
	// the provider is loaded, and of noSite otherwise. It is never nil, and
	// is read and written atomically. It comes first: see Probe6.Fire.
	at unsafe.Pointer

	_ noCopy

	provider *Provider
	name     string
	args     []ArgType

	strings  int    // how many of args are Strings
	pointers uint16 // which arguments of a typed probe are pointers, a bit each
}

// noCopy lets go vet find copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// noSite is the site of probes that are not loaded. Its first byte reads as
// idle, and nothing patches it.
var noSite = [1]byte{call.Idle}

// init makes p a probe that is not loaded.
func (p *Probe) init(provider *Provider, name string, args []ArgType) {
	p.provider, p.name, p.args = provider, name, args
	for _, t := range args {
		if t == String {
			p.strings++
		}
	}
	p.move(&noSite[0])
}

// move points the probe at another site, and returns the one before.
func (p *Probe) move(site *byte) (old *byte) {
	return (*byte)(atomic.SwapPointer(&p.at, unsafe.Pointer(site)))
}

// patched reports whether a tracer is attached to a site.
func patched(site *byte) bool { return *site&call.Mask == call.Bits }

// on reports whether the probe's site is patched: the load of its address, the
// load of its first byte, a compare.
//
// The mapping that is read must outlast the read, so p must be alive until then:
// the callers use p afterwards where the result is true, which the compiler
// cannot know before.
func (p *Probe) on() bool {
	return *(*byte)(atomic.LoadPointer(&p.at))&call.Mask == call.Bits
}

// Name returns the probe's name.
func (p *Probe) Name() string { return p.name }

// Provider returns the provider that the probe belongs to.
func (p *Probe) Provider() *Provider { return p.provider }

// Args returns the types of the probe's arguments.
func (p *Probe) Args() []ArgType { return slices.Clone(p.args) }

// String returns "provider:probe", as tracers write it.
func (p *Probe) String() string { return p.provider.name + ":" + p.name }

// Enabled reports whether a tracer is attached to this probe in this process.
// It is advisory: a tracer may attach or leave at any moment, and Fire is right
// to call either way. It spares the work of computing arguments that nobody
// sees.
func (p *Probe) Enabled() bool {
	on := p.on()
	runtime.KeepAlive(p)
	return on
}

// Fire reports an event with its arguments to whoever is attached to the probe,
// and does nothing while nobody is. An argument is an integer of any type whose
// value the ArgType can hold, a bool, a uintptr or an unsafe.Pointer; for a
// String it is a string or a []byte, of which the tracer can read a copy, up to
// the first NUL and MaxString bytes, until Fire returns. What a pointer points to
// is alive until then too.
//
// While a tracer is attached the arguments are checked, and nothing is reported
// when they are wrong: the error is an *Error that wraps ErrArgCount or
// ErrArgType.
func (p *Probe) Fire(args ...any) error {
	if p.on() {
		return p.fireAny(args)
	}
	return nil
}

// fireAny fires a probe that was found enabled.
func (p *Probe) fireAny(args []any) error {
	if len(args) != len(p.args) {
		return p.fireError(fmt.Errorf("%w: %d, not %d", ErrArgCount, len(args), len(p.args)))
	}
	var e event
	e.begin(p)
	var variables [MaxArgs]unsafe.Pointer
	var pointers uint16
	for i, arg := range args {
		t := p.args[i]
		w, text, kind := t.word(arg)
		switch kind {
		case wordArg:
			e.words[i] = w
		case textArg:
			e.words[i] = e.copies.add(text)
		case pointerArg:
			// SAFETY: a pointer is itself the second word of an interface.
			variables[i] = unsafe.Add(unsafe.Pointer(&args[i]), unsafe.Sizeof(uintptr(0)))
			pointers |= 1 << i
		default:
			e.end()
			return p.argError(i, arg)
		}
	}
	if pointers == 0 && len(p.args) <= call.MaxRegs {
		call.Few(&p.at, e.registers()) // as a typed probe does
	} else {
		p.enter(&e.words, variables[:], pointers)
	}
	e.end()
	keep(args)
	runtime.KeepAlive(p)
	return nil
}

// enter enters the site with words for arguments. Those that are pointers it
// reads only now, from the variables that hold them: what they point to may be on
// this goroutine's stack, which could still move before. It reports whether there
// was a tracer still, as on's answer may be out of date.
//
// A function that is not split is not preempted either, except in what it calls,
// and neither is that (isAsyncSafePoint in runtime/preempt.go). It must stay a
// function of its own: inlined, as a profile may have it, its code would be that
// of a caller which is preempted.
//
//go:nosplit
//go:noinline
func (p *Probe) enter(words *[MaxArgs]uint64, variables []unsafe.Pointer, pointers uint16) (fired bool) {
	for i := 0; pointers != 0; i, pointers = i+1, pointers>>1 {
		if pointers&1 != 0 {
			// SAFETY: the caller's variable of a pointer type.
			words[i] = uint64(*(*uintptr)(variables[i]))
		}
	}
	// SAFETY: at is what package call asks for: its mapping is not given back
	// before the provider and all of its probes are garbage, and p is alive.
	if len(p.args) <= call.MaxRegs {
		fired = call.Few(&p.at, (*[call.MaxRegs]uint64)(words[:]))
	} else {
		fired = call.Many(&p.at, words)
	}
	runtime.KeepAlive(p)
	return fired
}

func (p *Probe) fireError(err error) error {
	return &Error{Op: "fire", Provider: p.provider.name, Probe: p.name, Code: NoError, Err: err}
}

// argError is the error for an argument that its type cannot hold. It takes the
// type's name and not the value, which then need not be on the heap.
func (p *Probe) argError(i int, arg any) error {
	name := "nil"
	if t := reflect.TypeOf(arg); t != nil {
		name = t.String()
	}
	return p.fireError(fmt.Errorf("%w: argument %d is %v, which cannot hold this %s", ErrArgType, i, p.args[i], name))
}
