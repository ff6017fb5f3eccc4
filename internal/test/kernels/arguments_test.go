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

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestArguments fires as many arguments as there can be, with every integer type in each place, and each of its extremes, and reads the
// registers and the stack at the site.
func TestArguments(t *testing.T) {
	testedBy(t, "arguments")
	forEachPlacement(t, testArguments)
}

func testArguments(t *testing.T, p *stapsdt.Provider, _ bool) {
	tracetest.NeedUprobes(t)
	runtime.LockOSThread() // whose fires are sampled
	defer runtime.UnlockOSThread()
	// Neighbors have different sizes.
	all := []stapsdt.ArgType{
		stapsdt.Uint8, stapsdt.Int64, stapsdt.Uint16, stapsdt.Int32, stapsdt.Uint64, stapsdt.Int8, stapsdt.Uint32, stapsdt.Int16,
	}
	for shift := range all {
		var types []stapsdt.ArgType
		for i := range stapsdt.MaxArgs {
			types = append(types, all[(i+shift)%len(all)])
		}
		addProbe(t, p, fmt.Sprint("shift", shift), types...)
	}
	require.NoError(t, p.Load())
	for _, probe := range p.Probes() {
		note := noteOf(t, probe)
		uprobe := tracetest.Must(tracetest.AttachUprobe(p.Path(), note.Offset, unix.Gettid()))(t)
		for round := range values.Extremes[stapsdt.Int64] {
			var args []any
			for i, arg := range probe.Args() {
				extremes := values.Extremes[arg.Type]
				args = append(args, extremes[(round+i)%len(extremes)])
			}
			require.NoError(t, probe.Fire(args...))
			sample := tracetest.Must(uprobe.Read(testenv.Patience))(t)
			require.Equal(t, os.Getpid(), sample.PID)
			for i, arg := range note.Args {
				require.Equal(t, values.Word(args[i]), tracetest.Must(sample.Arg(arg))(t), "argument %d of %v", i, args)
			}
		}
		require.NoError(t, uprobe.Close())
	}
}
