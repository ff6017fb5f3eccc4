//go:build linux && (amd64 || arm64)

// Package soak fires probes under a tracer, in every way that could lose a fire, and compares what the program has fired
// with what the tracer has seen: how often, and the sums of the arguments. They must be equal. scripts/lib/soak.sh runs
// it for longer, in both builds. It needs root and Linux 6.6.
//
// # Why the counts are exact
//
// Goroutines fire without pause. The first argument is the number of a window, or 0 for none. A window opens when the
// tracer is attached and the provider loaded, and it is closed, which every goroutine has confirmed, before anybody
// detaches or unloads. The tracer counts by that argument. So each fire of a window must be in its count, whatever
// happened to those before, between and after, which a tracer may have seen or not.
package soak

import (
	"flag"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

var (
	scale  = flag.Float64("scale", 0.001, "how much of their work the phases do")
	within = flag.Duration("within", 0, "how long they may take together; what is not done by then is left out")
)

// TestPhases does the work of each phase.
func TestPhases(t *testing.T) {
	bpf.Need(t)
	for _, p := range phases {
		t.Run(p.name, func(t *testing.T) {
			p = p.scaled(*scale)
			budget := testenv.Patience
			if *within > 0 {
				budget = *within * time.Duration(p.weight) / 100
			}
			res, err := p.execute(budget)
			t.Logf("%+v", res)
			require.NoError(t, err)
			require.Equal(t, res.Fired, res.Seen)
			require.GreaterOrEqual(t, res.Fired, uint64(p.fires/p.cycles*res.Cycles))
			require.GreaterOrEqual(t, res.Free, res.FreeSeen)
			require.Len(t, res.Notes, len(p.disturb))
			if *within == 0 {
				require.Equal(t, p.cycles, res.Cycles)
			}
			require.NotZero(t, res.Cycles)
		})
	}
}
