package stapsdt

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// What the probes are fired with: variables, so that nothing of it is a constant.
var (
	someText          = "/index/page.html"
	someBytes         = []byte("/index/page.html")
	someNumber uint64 = 1 << 40 // an interface has a smaller one without an allocation
)

// newFires returns a probe of AddProbe, whose provider is loaded where that is possible, and functions that fire typed probes of the same
// provider, with each number of arguments, of integers and of strings.
func newFires(t testing.TB) (variadic *Probe, fires map[string]func()) {
	p := newProvider(t, "fires")
	variadic, err := p.AddProbe("any", Uint64, Int32)
	require.NoError(t, err)
	zero := NewProbe0(p, "zero")
	one := NewProbe1[uint64](p, "one")
	two := NewProbe2[uint64, int32](p, "two")
	three := NewProbe3[uint64, int32, uint16](p, "three")
	four := NewProbe4[uint64, int32, uint16, bool](p, "four")
	five := NewProbe5[uint64, int32, uint16, bool, int64](p, "five")
	six := NewProbe6[uint64, int32, uint16, bool, int64, uint8](p, "six")
	oneString := NewProbe1[string](p, "one_string")
	twoMixed := NewProbe2[string, int32](p, "two_mixed")
	threeMixed := NewProbe3[string, int32, []byte](p, "three_mixed")
	fourMixed := NewProbe4[string, int32, []byte, bool](p, "four_mixed")
	fiveMixed := NewProbe5[string, int32, []byte, bool, string](p, "five_mixed")
	sixMixed := NewProbe6[string, int32, []byte, bool, string, uint8](p, "six_mixed")
	sixStrings := NewProbe6[string, string, string, string, string, string](p, "six_strings")
	times := NewProbe3[time.Time, string, time.Time](p, "times")
	tryLoad(t, p)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	text, bytes, number, now := someText, someBytes, someNumber, time.Now()
	return variadic, map[string]func(){
		"zero":        func() { zero.Fire() },
		"one":         func() { one.Fire(number) },
		"two":         func() { two.Fire(number, 200) },
		"three":       func() { three.Fire(number, 200, 3) },
		"four":        func() { four.Fire(number, 200, 3, true) },
		"five":        func() { five.Fire(number, 200, 3, true, int64(number)) },
		"six":         func() { six.Fire(number, 200, 3, true, int64(number), 6) },
		"one string":  func() { oneString.Fire(text) },
		"two mixed":   func() { twoMixed.Fire(text, 200) },
		"three mixed": func() { threeMixed.Fire(text, 200, bytes) },
		"four mixed":  func() { fourMixed.Fire(text, 200, bytes, true) },
		"five mixed":  func() { fiveMixed.Fire(text, 200, bytes, true, text) },
		"six mixed":   func() { sixMixed.Fire(text, 200, bytes, true, text, 6) },
		"six strings": func() { sixStrings.Fire(text, text, text, text, text, text) },
		"times":       func() { times.Fire(now, text, now) },
		"func":        func() { twoMixed.FireFunc(func() (string, int32) { return text, 200 }) },
	}
}

// TestIdleDoesNotAllocate fires everything that can be fired, while no tracer is attached.
func TestIdleDoesNotAllocate(t *testing.T) {
	testenv.NotSanitized(t, "the address sanitizer has variables escape")
	variadic, fires := newFires(t)
	var err error
	fires["variadic"] = func() { err = variadic.Fire(uint64(7), int32(200)) }
	fires["Enabled"] = func() {
		if variadic.Enabled() {
			err = ErrLoaded
		}
	}
	for name, fire := range fires {
		require.Zero(t, testing.AllocsPerRun(100, fire), name)
		require.NoError(t, err)
	}
}

// TestObservedDoesNotAllocate: neither the event nor what the observer reads of it.
func TestObservedDoesNotAllocate(t *testing.T) {
	testenv.NotRaced(t, "sync.Pool drops what it was given, at random")
	testenv.NotSanitized(t, "the address sanitizer has variables escape")
	testenv.NeedsOptimization(t, "Fire is not inlined, and its arguments are allocated")
	variadic, fires := newFires(t)
	var err error
	fires["variadic"] = func() { err = variadic.Fire(someNumber, int32(200)) }
	var read int
	defer variadic.Provider().Observe(func(e *Event) {
		for i := range e.NumArgs() {
			v := e.Arg(i)
			read += len(v.text) + int(v.Int64()) + int(v.Kind())
		}
	})()
	for name, fire := range fires {
		require.Zero(t, testing.AllocsPerRun(100, fire), name)
		require.NoError(t, err)
	}
	require.NotZero(t, read)
}

// TestIdleArgumentsStayOnTheStack: a caller's text does not escape, because nothing keeps it: not even an observer could.
func TestIdleArgumentsStayOnTheStack(t *testing.T) {
	testenv.NotSanitized(t, "the address sanitizer has variables escape")
	testenv.NeedsOptimization(t, "Fire is not inlined, and its arguments are allocated")
	p := newProvider(t, "stack")
	one := NewProbe1[string](p, "one")
	two := NewProbe2[string, int32](p, "two")
	three := NewProbe3[string, int32, []byte](p, "three")
	six := NewProbe6[string, int32, []byte, bool, string, uint8](p, "six")
	n := byte(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		n++
		b := make([]byte, 0, 20) // becomes garbage with the frame
		b = append(b, n, n, n)
		one.Fire(string(b))
		two.Fire(string(append(b, 'x')), 1)
		three.Fire("constant", 1, append(b, 'y'))
		six.Fire(string(b), 1, b, true, string(b), 1)
	}))
}
