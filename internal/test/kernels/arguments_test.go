//go:build linux && (amd64 || arm64)

package kernels

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/test/values"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// argTypes are the integer types, in an order that puts different sizes next to
// each other.
var argTypes = []stapsdt.ArgType{
	stapsdt.Uint8, stapsdt.Int64, stapsdt.Uint16, stapsdt.Int32, stapsdt.Uint64, stapsdt.Int8, stapsdt.Uint32, stapsdt.Int16,
}

// sampled is a probe, its note, and what samples its fires.
type sampled struct {
	*stapsdt.Probe
	note   sdt.Site
	uprobe *tracetest.Uprobe
}

func sample(t *testing.T, probe *stapsdt.Probe) *sampled {
	tracetest.NeedUprobes(t)
	note := noteOf(t, probe)
	u := tracetest.Must(tracetest.AttachUprobe(probe.Provider().Path(), note.Offset, unix.Gettid()))(t)
	t.Cleanup(func() { u.Close() })
	return &sampled{probe, note, u}
}

// fire fires the probe and returns its arguments as a tracer decodes them with
// the note.
func (s *sampled) fire(t *testing.T, args ...any) []uint64 {
	require.NoError(t, s.Fire(args...))
	sample, err := s.uprobe.Read(testenv.Patience)
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), sample.PID)
	words := make([]uint64, len(s.note.Args))
	for i, arg := range s.note.Args {
		words[i], err = sample.Arg(arg)
		require.NoError(t, err)
	}
	return words
}

// TestArguments fires every number of arguments, and every type in every place
// with each of its extremes, and reads the registers and the stack at the site.
func TestArguments(t *testing.T) {
	testedBy(t, "arguments")
	forEachPlacement(t, testArguments)
}

func testArguments(t *testing.T, where placement) {
	runtime.LockOSThread() // whose fires are sampled
	defer runtime.UnlockOSThread()
	p := newProvider(t, "arguments", where)
	for n := range stapsdt.MaxArgs + 1 {
		shifts := 1
		if n == stapsdt.MaxArgs {
			shifts = len(argTypes)
		}
		for shift := range shifts {
			types := make([]stapsdt.ArgType, n)
			for i := range types {
				types[i] = argTypes[(i+shift)%len(argTypes)]
			}
			addProbe(t, p, fmt.Sprintf("n%d_%d", n, shift), types...)
		}
	}
	require.NoError(t, p.Load())
	if where == inMemory {
		require.Regexp(t, "^/proc/", p.Path())
	} else {
		require.Regexp(t, "^"+os.TempDir(), p.Path())
	}
	events := 0
	for _, probe := range p.Probes() {
		s := sample(t, probe)
		for round := range values.Extremes[stapsdt.Int64] {
			args, want := make([]any, len(probe.Args())), make([]uint64, len(probe.Args()))
			for i, arg := range probe.Args() {
				extremes := values.Extremes[arg.Type]
				args[i] = extremes[(round+i)%len(extremes)]
				want[i] = values.Word(args[i])
			}
			require.Equal(t, want, s.fire(t, args...), "%s %v", probe, args)
			events++
		}
	}
	t.Logf("%d events of %d probes", events, len(p.Probes()))
}
