//go:build linux && (amd64 || arm64)

package main

import (
	"slices"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/tracetest"

	"github.com/stretchr/testify/require"
)

// placement is where a provider's image is kept.
type placement bool

const (
	inFile   placement = false
	inMemory placement = true
)

// newProvider makes a provider that is closed when the check ends.
func newProvider(t *T, name string, where placement) *stapsdt.Provider {
	opts := []stapsdt.Option{stapsdt.WithDir(t.TempDir())}
	if where == inMemory {
		opts = append(opts, stapsdt.WithMemfd())
	}
	p := stapsdt.NewProvider(name, opts...)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// addProbe adds a probe of any number of arguments.
func addProbe(t *T, p *stapsdt.Provider, name string, args ...stapsdt.ArgType) *stapsdt.Probe {
	probe, err := p.AddProbe(name, args...)
	require.NoError(t, err)
	return probe
}

// oneEvent returns a loaded provider of one probe of one argument.
func oneEvent(t *T, where placement) (*stapsdt.Provider, *stapsdt.Probe) {
	p := newProvider(t, "kernel", where)
	event := addProbe(t, p, "event", stapsdt.Uint64)
	require.NoError(t, p.Load())
	return p, event
}

// noteOf returns the note of a loaded probe, which is also where its site is.
func noteOf(t *T, probe *stapsdt.Probe) tracetest.Note {
	p := probe.Provider()
	notes, err := tracetest.Notes(p.Path())
	require.NoError(t, err)
	require.Len(t, notes, len(p.Probes()))
	note := notes[slices.Index(p.Probes(), probe)]
	require.Equal(t, probe.String(), note.Provider+":"+note.Name)
	require.Len(t, note.Args, len(probe.Args()))
	return note
}

// count attaches a counter to a probe, in every process.
func count(t *T, probe *stapsdt.Probe) *tracetest.Counter {
	c, err := tracetest.CountUprobe(probe.Provider().Path(), noteOf(t, probe).Offset)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// requireCount finds what a counter has counted since it was attached.
func requireCount(t *T, c *tracetest.Counter, want int) {
	got, err := c.Count()
	require.NoError(t, err)
	require.EqualValues(t, want, got)
}
