// Package eventtest has helpers for the tests of packages that define probes.
package eventtest

import (
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

// Named selects the events of a probe.
func Named(name string) probetest.Option {
	return probetest.Where(func(e *stapsdt.Event) bool { return e.Probe().Name() == name })
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
