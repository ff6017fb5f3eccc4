package stapsdt

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// The methods of these must not be called.
type (
	hostileText   string
	hostileBytes  []byte
	hostileNumber int
	hostileFloat  float64
	hostileStruct struct{ A hostileText }
)

func (hostileText) String() string               { panic("String") }
func (hostileText) Error() string                { panic("Error") }
func (hostileText) Format(fmt.State, rune)       { panic("Format") }
func (hostileText) GoString() string             { panic("GoString") }
func (hostileText) MarshalText() ([]byte, error) { panic("MarshalText") }
func (hostileBytes) String() string              { panic("String") }
func (hostileNumber) String() string             { panic("String") }
func (hostileNumber) Error() string              { panic("Error") }
func (hostileFloat) String() string              { panic("String") }
func (*hostileStruct) String() string            { panic("String") }

// TestFireCallsNoMethod of its arguments, whether they are right or wrong.
func TestFireCallsNoMethod(t *testing.T) {
	p := newProvider(t, "methods")
	untyped, err := p.AddProbe("untyped", String, String, Int64, Float64, Uint64)
	require.NoError(t, err)
	typed := NewProbe4[hostileText, hostileNumber, hostileFloat, unsafe.Pointer](p, "typed")
	of := NewProbeOf[struct {
		A hostileText
		B hostileNumber
	}](p, "of")
	lines := watch(t, p)
	pointer := unsafe.Pointer(&hostileStruct{})
	require.NoError(t, untyped.Fire(hostileText("a"), hostileBytes("b"), hostileNumber(1), hostileFloat(2), pointer))
	typed.Fire("a", 1, 2, pointer)
	of.Fire(struct {
		A hostileText
		B hostileNumber
	}{"a", 1})
	require.Len(t, lines(), 3)
	for i, wrong := range []any{hostileNumber(1), hostileFloat(1), hostileText("x"), hostileText("x"), &hostileStruct{}} {
		args := []any{"a", "b", 1, 2.0, 3}
		args[i] = wrong
		err := untyped.Fire(args...)
		require.ErrorIs(t, err, ErrArgType)
		require.Contains(t, err.Error(), "hostile")
	}
	require.Empty(t, lines())
}

// TestObservedInFlight: operations in flight, whose start was observed, have no goroutine or descriptor of ours, and nothing
// is allocated for them that they could keep.
func TestObservedInFlight(t *testing.T) {
	p := newProvider(t, "flight")
	start := NewProbe2[uint64, string](p, "start", "id", "text")
	end := NewProbe1[uint64](p, "end", "id")
	tryLoad(t, p)
	seen := 0
	defer p.Observe(func(*Event) { seen++ })()
	const operations = 2000
	text := strings.Repeat("x", 2*MaxString)
	descriptors := testenv.Descriptors()
	for id := range uint64(operations) {
		start.Fire(id, text)
	}
	require.Zero(t, testenv.Goroutines())
	require.LessOrEqual(t, testenv.Descriptors(), descriptors)
	for id := range uint64(operations) {
		end.Fire(id)
	}
	require.Equal(t, 2*operations, seen)
	testenv.NotRaced(t, "sync.Pool drops at random what it was given")
	testenv.NotSanitized(t, "the address sanitizer has variables escape")
	testenv.NeedsOptimization(t, "Fire is not inlined, and its arguments are allocated")
	require.Zero(t, testing.AllocsPerRun(100, func() { start.Fire(0, text) }))
}

// TestFireInFlight: a fire with a string takes a buffer of MaxString bytes for it, until it returns.
func TestFireInFlight(t *testing.T) {
	testenv.Measures(t, "the memory of fires in flight")
	testenv.NotRaced(t, "the detector has memory of its own")
	p := newProvider(t, "buffers")
	probe := NewProbe1[string](p, "event", "text")
	release := make(chan struct{})
	arrived := make(chan struct{})
	defer p.Observe(func(*Event) {
		arrived <- struct{}{}
		<-release
	})()
	const fires = 100
	done := make(chan struct{})
	var before, during runtime.MemStats
	runtime.GC()
	percent := debug.SetGCPercent(-1) // what others have left must not be collected in between
	runtime.ReadMemStats(&before)
	for range fires {
		go func() {
			probe.Fire("text")
			done <- struct{}{}
		}()
	}
	for range fires {
		<-arrived
	}
	runtime.ReadMemStats(&during)
	debug.SetGCPercent(percent)
	close(release)
	for range fires {
		<-done
	}
	for range 3 { // a pool is empty after two collections
		runtime.GC()
	}
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	each := func(m runtime.MemStats) float64 { return (float64(m.HeapAlloc) - float64(before.HeapAlloc)) / fires }
	testenv.Figure(t, "a fire in flight", each(during), 1.5*MaxString, "bytes")
	testenv.Figure(t, "a fire that has returned", each(after), MaxString/4, "bytes")
}
