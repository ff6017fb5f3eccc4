//go:build linux && (amd64 || arm64)

package kernels

import (
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// placement is where the image of a provider is.
type placement bool

const (
	inFile   placement = false
	inMemory placement = true
)

// forEachPlacement runs a test for each of them.
func forEachPlacement(t *testing.T, test func(*testing.T, placement)) {
	t.Run("file", func(t *testing.T) { test(t, inFile) })
	t.Run("memfd", func(t *testing.T) { test(t, inMemory) })
}

// newProvider returns a provider that is closed when the test ends.
func newProvider(t *testing.T, name string, where placement) *stapsdt.Provider {
	opts := []stapsdt.Option{stapsdt.WithDir(t.TempDir())}
	if where == inMemory {
		opts = append(opts, stapsdt.WithMemfd())
	}
	p := stapsdt.NewProvider(name, opts...)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// addProbe adds a probe with any number of arguments.
func addProbe(t *testing.T, p *stapsdt.Provider, name string, args ...stapsdt.ArgType) *stapsdt.Probe {
	probe, err := p.AddProbe(name, args...)
	require.NoError(t, err)
	return probe
}

// oneEvent returns a loaded provider with one probe, which has one argument. Its
// callers attach to it.
func oneEvent(t *testing.T, where placement) (*stapsdt.Provider, *stapsdt.Probe) {
	tracetest.NeedUprobes(t)
	p := newProvider(t, "kernel", where)
	event := addProbe(t, p, "event", stapsdt.Uint64)
	require.NoError(t, p.Load())
	return p, event
}

// noteOf returns the note of a loaded probe. Its offset is that of the site.
func noteOf(t *testing.T, probe *stapsdt.Probe) sdt.Site {
	p := probe.Provider()
	notes, err := sdt.ReadFile(p.Path())
	require.NoError(t, err)
	require.Len(t, notes, len(p.Probes()))
	note := notes[slices.Index(p.Probes(), probe)]
	require.Equal(t, probe.String(), note.Provider+":"+note.Name)
	require.Len(t, note.Args, len(probe.ArgTypes()))
	return note
}

// count attaches a counter to a probe, in every process.
func count(t *testing.T, probe *stapsdt.Probe) *tracetest.Counter {
	c, err := tracetest.CountUprobe(probe.Provider().Path(), noteOf(t, probe).Offset)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// requireCount requires that a counter has counted so many fires since it was
// attached.
func requireCount(t *testing.T, c *tracetest.Counter, want int) {
	got, err := c.Count()
	require.NoError(t, err)
	require.EqualValues(t, want, got)
}
