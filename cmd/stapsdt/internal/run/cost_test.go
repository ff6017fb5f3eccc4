//go:build linux

package run

import (
	"bytes"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/meter"

	"github.com/stretchr/testify/require"
)

// TestWarnOfRate: a rate above the limit is worth one line, however long it lasts, and a lower one none.
func TestWarnOfRate(t *testing.T) {
	var said bytes.Buffer
	c := &cost{run: &Run{Console: &console.Console{Err: &said}}}
	units := []*meter.Unit{{}, {}}
	add := func(events uint64, elapsed time.Duration) {
		units[0].Count += events / 2
		units[1].Count += events / 2
		c.warn(elapsed, units)
	}
	add(99_000, time.Second)
	add(150_000, 2*time.Second)
	require.Empty(t, said.String())
	add(130_000, time.Second)
	require.Equal(t, "stapsdt: 130000 events per second are of probes that the kernel single-steps, which slows the program down: see stapsdt list -v, or limit the cost with --budget\n", said.String())
	add(1_000_000, time.Second)
	require.Equal(t, 1, bytes.Count(said.Bytes(), []byte("\n")))
}

func TestPercent(t *testing.T) {
	require.Equal(t, "1 %", percent(0.01))
	require.Equal(t, "67.5 %", percent(0.674806))
	require.Equal(t, "0.0123 %", percent(0.000123))
}
