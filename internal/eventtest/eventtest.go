// Package eventtest has helpers for the tests of packages that define probes.
package eventtest

import (
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

// Provider returns a provider that is closed when the test ends.
func Provider(t testing.TB, name string) *stapsdt.Provider {
	p := stapsdt.NewProvider(name)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// Recorded returns a provider that is closed when the test ends, and a recorder of its events.
func Recorded(t testing.TB, name string) (*stapsdt.Provider, *probetest.Recorder) {
	p := Provider(t, name)
	return p, probetest.Record(t, p)
}

// Same runs a program without the probes, with them while nothing traces, and while they are recorded, and requires that what it
// notices is the same.
func Same[T any](t testing.TB, p *stapsdt.Provider, run func(probed bool) (noticed T)) *probetest.Recorder {
	t.Helper()
	bare := run(false)
	require.NotEmpty(t, bare)
	require.Equal(t, bare, run(true), "while nothing traces")
	rec := probetest.Record(t, p)
	require.Equal(t, bare, run(true), "while it is traced")
	return rec
}

// Paired requires that each end among the events of operations has a start before it with the same ID, and each start an end.
func Paired(t testing.TB, events []*stapsdt.Event) {
	t.Helper()
	unended := map[any]string{}
	for _, e := range events {
		id := e.Arg(0).Any()
		if strings.HasSuffix(e.Probe().Name(), "__start") {
			require.NotContains(t, unended, id)
			unended[id] = e.String()
		} else {
			require.Contains(t, unended, id)
			delete(unended, id)
		}
	}
	require.Empty(t, unended)
}

// Args returns the arguments of an event by their names.
func Args(e *stapsdt.Event) map[string]any {
	all := map[string]any{}
	for i, a := range e.Probe().Args() {
		if a.Name != "" {
			all[a.Name] = e.Arg(i).Any()
		}
	}
	return all
}

// Names returns the names of a probe's arguments.
func Names(p *stapsdt.Probe) (names []string) {
	for _, a := range p.Args() {
		names = append(names, a.Name)
	}
	return names
}
