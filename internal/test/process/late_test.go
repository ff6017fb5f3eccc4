//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// TestLateDefinition: a probe that is defined while its provider is loaded becomes
// part of it at the next Load, however it was defined.
func TestLateDefinition(t *testing.T) {
	p := newProvider(t, "late")
	early := stapsdt.NewProbe1[int](p, "early")
	load(t, p)
	all := []*stapsdt.Probe{&early.Probe}
	for round := range 3 {
		typed := stapsdt.NewProbe1[int](p, fmt.Sprint("typed", round))
		added, err := p.AddProbe(fmt.Sprint("added", round), stapsdt.Int64)
		require.NoError(t, err)
		again, err := p.AddProbe("early", stapsdt.Int64)
		require.NoError(t, err)
		late := []*stapsdt.Probe{&typed.Probe, added, again}

		notes, err := sdt.ReadFile(p.Path())
		require.NoError(t, err)
		require.Len(t, notes, len(all), "the image of the last load")
		var script strings.Builder
		require.NoError(t, p.WriteScript(&script))
		for _, probe := range late {
			require.False(t, probe.Enabled())
			require.NoError(t, probe.Fire("not looked at"))
			require.Equal(t, probe == again, strings.Contains(script.String(), ":"+probe.Name()+"\n"), "a tracer would not find it")
		}
		all = append(all, late...)
		require.Equal(t, all, p.Probes())

		require.NoError(t, p.Unload())
		require.NoError(t, p.Load())
		for i, traced := range trace(t, all...) {
			require.NoError(t, traced.Fire(i))
			require.EqualValues(t, i, traced.arg(t, traced.read(t), 0), traced.String())
			traced.uprobe.Close()
		}
	}
}
