package stapsdt

import (
	"errors"
	"reflect"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
)

// Arg is what an argument of a typed probe can be. A tracer sees a bool as an
// unsigned byte, an int and a uint as 8 bytes, a pointer as its address, and a
// string or a []byte as a String.
type Arg interface {
	~bool |
		~int8 | ~int16 | ~int32 | ~int64 | ~int |
		~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~uintptr |
		~unsafe.Pointer | ~string | ~[]byte
}

// argType returns the ArgType that describes a T.
func argType[T Arg]() ArgType {
	typ := reflect.TypeFor[T]()
	switch typ.Kind() {
	case reflect.String, reflect.Slice:
		return String
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		return -ArgType(typ.Size())
	}
	return ArgType(typ.Size())
}

// isPointer returns the bit that says whether the i-th argument, a T, is a
// pointer.
func isPointer[T Arg](i int) uint16 {
	if reflect.TypeFor[T]().Kind() == reflect.UnsafePointer {
		return 1 << i
	}
	return 0
}

// define makes probe one of the provider's. An error waits for Load, so that
// probes can be package variables. One that came too late makes no other wrong:
// Load says so once.
func (p *Provider) define(probe *Probe, name string, pointers uint16, args ...ArgType) {
	probe.pointers = pointers
	err := p.add(probe, name, args)
	if err == nil {
		return
	}
	if errors.Is(err, ErrLoaded) {
		err = p.fail("define", name, ErrLate) // Load must not seem to say that the provider is loaded
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil || errors.Is(p.err, ErrLate) {
		p.err = err
	}
}

// set makes the words of arguments, of the types in p.args, at the addresses in
// args. What pointers point to may be on the goroutine's stack, which can still
// move: enter makes the words of those.
func (e *event) set(p *Probe, args []unsafe.Pointer) {
	e.begin(p)
	for i, t := range p.args {
		// SAFETY: the i-th pointer is to a variable of the typed Fire that
		// called, whose type gave p.args[i] its value in argType. It lives
		// in that frame. A []byte is read as a string: its first two words
		// are the same, and the bytes are only read, before Fire returns.
		switch arg := args[i]; t {
		case Uint8:
			e.words[i] = uint64(*(*uint8)(arg))
		case Int8:
			e.words[i] = uint64(*(*int8)(arg))
		case Uint16:
			e.words[i] = uint64(*(*uint16)(arg))
		case Int16:
			e.words[i] = uint64(*(*int16)(arg))
		case Uint32:
			e.words[i] = uint64(*(*uint32)(arg))
		case Int32:
			e.words[i] = uint64(*(*int32)(arg))
		case Uint64, Int64:
			e.words[i] = *(*uint64)(arg)
		case String:
			e.words[i] = e.copies.add(*(*string)(arg))
		}
	}
}

// keep keeps an argument alive until the tracer has seen it: what a pointer
// points to must not be freed when all that is left of it is a word.
//
//go:noinline
func keep[T any](T) {}

// The typed probes follow. Each Fire is inlined: while nobody traces, it is what
// on does. What the branch leads to is a function of its own, fire, so that the
// arguments stay in registers until then. fire reports what enter does; but
// without pointers it enters the site itself: behind a system call, and a traced
// site is one, many processors have forgotten where to return to, so that each
// frame above the site costs.

// Probe0 is a probe with no arguments.
type Probe0 struct{ Probe }

// NewProbe0 defines a probe of the provider with no arguments. A definition that
// fails is reported by Load.
func NewProbe0(p *Provider, name string) *Probe0 {
	t := new(Probe0)
	p.define(&t.Probe, name, 0)
	return t
}

// Fire reports an event to whoever is attached to the probe, and does nothing
// while nobody is.
func (t *Probe0) Fire() {
	if t.on() {
		t.fire()
	}
}

//go:noinline
func (t *Probe0) fire() (fired bool) {
	var ev event
	fired = call.Few(&t.at, ev.registers())
	runtime.KeepAlive(t)
	return fired
}

// Probe1 is a probe with one argument.
type Probe1[A Arg] struct{ Probe }

// NewProbe1 defines a probe of the provider with one argument. A definition that
// fails is reported by Load.
func NewProbe1[A Arg](p *Provider, name string) *Probe1[A] {
	t := new(Probe1[A])
	p.define(&t.Probe, name, isPointer[A](0), argType[A]())
	return t
}

// Fire reports an event to whoever is attached to the probe, and does nothing
// while nobody is.
func (t *Probe1[A]) Fire(a A) {
	if t.on() {
		t.fire(a)
	}
}

// FireFunc is Fire with what args returns. It runs only while a tracer is attached,
// and so must not panic: nobody would see it before.
func (t *Probe1[A]) FireFunc(args func() A) {
	if t.on() {
		t.fireFunc(args)
	}
}

//go:noinline
func (t *Probe1[A]) fireFunc(args func() A) {
	a := args()
	t.fire(a)
}

//go:noinline
func (t *Probe1[A]) fire(a A) (fired bool) {
	var ev event
	args := [...]unsafe.Pointer{unsafe.Pointer(&a)}
	ev.set(&t.Probe, args[:])
	if t.pointers == 0 {
		fired = call.Few(&t.at, ev.registers())
	} else {
		fired = t.enter(&ev.words, args[:], t.pointers)
	}
	ev.end()
	keep(a)
	runtime.KeepAlive(t)
	return fired
}

// Probe2 is a probe with two arguments.
type Probe2[A, B Arg] struct{ Probe }

// NewProbe2 defines a probe of the provider with two arguments. A definition that
// fails is reported by Load.
func NewProbe2[A, B Arg](p *Provider, name string) *Probe2[A, B] {
	t := new(Probe2[A, B])
	p.define(&t.Probe, name, isPointer[A](0)|isPointer[B](1), argType[A](), argType[B]())
	return t
}

// Fire reports an event to whoever is attached to the probe, and does nothing
// while nobody is.
func (t *Probe2[A, B]) Fire(a A, b B) {
	if t.on() {
		t.fire(a, b)
	}
}

// FireFunc is Fire with what args returns. It runs only while a tracer is attached,
// and so must not panic: nobody would see it before.
func (t *Probe2[A, B]) FireFunc(args func() (A, B)) {
	if t.on() {
		t.fireFunc(args)
	}
}

//go:noinline
func (t *Probe2[A, B]) fireFunc(args func() (A, B)) {
	a, b := args()
	t.fire(a, b)
}

//go:noinline
func (t *Probe2[A, B]) fire(a A, b B) (fired bool) {
	var ev event
	args := [...]unsafe.Pointer{unsafe.Pointer(&a), unsafe.Pointer(&b)}
	ev.set(&t.Probe, args[:])
	if t.pointers == 0 {
		fired = call.Few(&t.at, ev.registers())
	} else {
		fired = t.enter(&ev.words, args[:], t.pointers)
	}
	ev.end()
	keep(a)
	keep(b)
	runtime.KeepAlive(t)
	return fired
}

// Probe3 is a probe with three arguments.
type Probe3[A, B, C Arg] struct{ Probe }

// NewProbe3 defines a probe of the provider with three arguments. A definition that
// fails is reported by Load.
func NewProbe3[A, B, C Arg](p *Provider, name string) *Probe3[A, B, C] {
	t := new(Probe3[A, B, C])
	p.define(&t.Probe, name, isPointer[A](0)|isPointer[B](1)|isPointer[C](2), argType[A](), argType[B](), argType[C]())
	return t
}

// Fire reports an event to whoever is attached to the probe, and does nothing
// while nobody is.
func (t *Probe3[A, B, C]) Fire(a A, b B, c C) {
	if t.on() {
		t.fire(a, b, c)
	}
}

// FireFunc is Fire with what args returns. It runs only while a tracer is attached,
// and so must not panic: nobody would see it before.
func (t *Probe3[A, B, C]) FireFunc(args func() (A, B, C)) {
	if t.on() {
		t.fireFunc(args)
	}
}

//go:noinline
func (t *Probe3[A, B, C]) fireFunc(args func() (A, B, C)) {
	a, b, c := args()
	t.fire(a, b, c)
}

//go:noinline
func (t *Probe3[A, B, C]) fire(a A, b B, c C) (fired bool) {
	var ev event
	args := [...]unsafe.Pointer{unsafe.Pointer(&a), unsafe.Pointer(&b), unsafe.Pointer(&c)}
	ev.set(&t.Probe, args[:])
	if t.pointers == 0 {
		fired = call.Few(&t.at, ev.registers())
	} else {
		fired = t.enter(&ev.words, args[:], t.pointers)
	}
	ev.end()
	keep(a)
	keep(b)
	keep(c)
	runtime.KeepAlive(t)
	return fired
}

// Probe4 is a probe with four arguments.
type Probe4[A, B, C, D Arg] struct{ Probe }

// NewProbe4 defines a probe of the provider with four arguments. A definition that
// fails is reported by Load.
func NewProbe4[A, B, C, D Arg](p *Provider, name string) *Probe4[A, B, C, D] {
	t := new(Probe4[A, B, C, D])
	p.define(&t.Probe, name, isPointer[A](0)|isPointer[B](1)|isPointer[C](2)|isPointer[D](3), argType[A](), argType[B](), argType[C](), argType[D]())
	return t
}

// Fire reports an event to whoever is attached to the probe, and does nothing
// while nobody is.
func (t *Probe4[A, B, C, D]) Fire(a A, b B, c C, d D) {
	if t.on() {
		t.fire(a, b, c, d)
	}
}

// FireFunc is Fire with what args returns. It runs only while a tracer is attached,
// and so must not panic: nobody would see it before.
func (t *Probe4[A, B, C, D]) FireFunc(args func() (A, B, C, D)) {
	if t.on() {
		t.fireFunc(args)
	}
}

//go:noinline
func (t *Probe4[A, B, C, D]) fireFunc(args func() (A, B, C, D)) {
	a, b, c, d := args()
	t.fire(a, b, c, d)
}

//go:noinline
func (t *Probe4[A, B, C, D]) fire(a A, b B, c C, d D) (fired bool) {
	var ev event
	args := [...]unsafe.Pointer{unsafe.Pointer(&a), unsafe.Pointer(&b), unsafe.Pointer(&c), unsafe.Pointer(&d)}
	ev.set(&t.Probe, args[:])
	if t.pointers == 0 {
		fired = call.Few(&t.at, ev.registers())
	} else {
		fired = t.enter(&ev.words, args[:], t.pointers)
	}
	ev.end()
	keep(a)
	keep(b)
	keep(c)
	keep(d)
	runtime.KeepAlive(t)
	return fired
}

// Probe5 is a probe with five arguments.
type Probe5[A, B, C, D, E Arg] struct{ Probe }

// NewProbe5 defines a probe of the provider with five arguments. A definition that
// fails is reported by Load.
func NewProbe5[A, B, C, D, E Arg](p *Provider, name string) *Probe5[A, B, C, D, E] {
	t := new(Probe5[A, B, C, D, E])
	p.define(&t.Probe, name, isPointer[A](0)|isPointer[B](1)|isPointer[C](2)|isPointer[D](3)|isPointer[E](4), argType[A](), argType[B](), argType[C](), argType[D](), argType[E]())
	return t
}

// Fire reports an event to whoever is attached to the probe, and does nothing
// while nobody is.
func (t *Probe5[A, B, C, D, E]) Fire(a A, b B, c C, d D, e E) {
	if t.on() {
		t.fire(a, b, c, d, e)
	}
}

// FireFunc is Fire with what args returns. It runs only while a tracer is attached,
// and so must not panic: nobody would see it before.
func (t *Probe5[A, B, C, D, E]) FireFunc(args func() (A, B, C, D, E)) {
	if t.on() {
		t.fireFunc(args)
	}
}

//go:noinline
func (t *Probe5[A, B, C, D, E]) fireFunc(args func() (A, B, C, D, E)) {
	a, b, c, d, e := args()
	t.fire(a, b, c, d, e)
}

//go:noinline
func (t *Probe5[A, B, C, D, E]) fire(a A, b B, c C, d D, e E) (fired bool) {
	var ev event
	args := [...]unsafe.Pointer{unsafe.Pointer(&a), unsafe.Pointer(&b), unsafe.Pointer(&c), unsafe.Pointer(&d), unsafe.Pointer(&e)}
	ev.set(&t.Probe, args[:])
	if t.pointers == 0 {
		fired = call.Few(&t.at, ev.registers())
	} else {
		fired = t.enter(&ev.words, args[:], t.pointers)
	}
	ev.end()
	keep(a)
	keep(b)
	keep(c)
	keep(d)
	keep(e)
	runtime.KeepAlive(t)
	return fired
}

// Probe6 is a probe with six arguments.
type Probe6[A, B, C, D, E, F Arg] struct{ Probe }

// NewProbe6 defines a probe of the provider with six arguments. A definition that
// fails is reported by Load.
func NewProbe6[A, B, C, D, E, F Arg](p *Provider, name string) *Probe6[A, B, C, D, E, F] {
	t := new(Probe6[A, B, C, D, E, F])
	p.define(&t.Probe, name, isPointer[A](0)|isPointer[B](1)|isPointer[C](2)|isPointer[D](3)|isPointer[E](4)|isPointer[F](5), argType[A](), argType[B](), argType[C](), argType[D](), argType[E](), argType[F]())
	return t
}

// Fire reports an event to whoever is attached to the probe, and does nothing
// while nobody is.
func (t *Probe6[A, B, C, D, E, F]) Fire(a A, b B, c C, d D, e E, f F) {
	// This is t.on(), spelled so that the inliner's budget holds it.
	// SAFETY: Probe is the first member of t, and at the first of Probe.
	if *(*byte)(atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(t))))&call.Mask == call.Bits {
		t.fire(a, b, c, d, e, f)
	}
}

// FireFunc is Fire with what args returns. It runs only while a tracer is attached,
// and so must not panic: nobody would see it before.
func (t *Probe6[A, B, C, D, E, F]) FireFunc(args func() (A, B, C, D, E, F)) {
	if t.on() {
		t.fireFunc(args)
	}
}

//go:noinline
func (t *Probe6[A, B, C, D, E, F]) fireFunc(args func() (A, B, C, D, E, F)) {
	a, b, c, d, e, f := args()
	t.fire(a, b, c, d, e, f)
}

//go:noinline
func (t *Probe6[A, B, C, D, E, F]) fire(a A, b B, c C, d D, e E, f F) (fired bool) {
	var ev event
	args := [...]unsafe.Pointer{unsafe.Pointer(&a), unsafe.Pointer(&b), unsafe.Pointer(&c), unsafe.Pointer(&d), unsafe.Pointer(&e), unsafe.Pointer(&f)}
	ev.set(&t.Probe, args[:])
	if t.pointers == 0 {
		fired = call.Few(&t.at, ev.registers())
	} else {
		fired = t.enter(&ev.words, args[:], t.pointers)
	}
	ev.end()
	keep(a)
	keep(b)
	keep(c)
	keep(d)
	keep(e)
	keep(f)
	runtime.KeepAlive(t)
	return fired
}
