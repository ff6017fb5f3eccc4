//go:build linux && (amd64 || arm64) && !stapsdt_noload

package stapsdt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWrongLateDefinition: a typed probe that is wrong fails the next Load and
// every one after it, as it would have failed the first.
func TestWrongLateDefinition(t *testing.T) {
	p := newProvider(t, "late")
	load(t, p)
	NewProbe1[int](p, "b:d")
	_, err := p.AddProbe("b:d", Int8)
	require.ErrorIs(t, err, ErrName)
	require.ErrorIs(t, p.Load(), ErrLoaded)
	require.NoError(t, p.Unload())
	for range 2 {
		require.ErrorIs(t, p.Load(), ErrName)
	}
	require.Empty(t, p.Probes())
}

// TestLateNames: the names of a loaded probe cannot be given any more, until it is
// unloaded.
func TestLateNames(t *testing.T) {
	p := newProvider(t, "late")
	probe, err := p.AddProbe("probe", Int8)
	require.NoError(t, err)
	load(t, p)
	require.ErrorIs(t, probe.NameArgs("a"), ErrLoaded)
	require.Nil(t, probe.argNames())
	late, err := p.AddProbe("late", Int8)
	require.NoError(t, err)
	require.NoError(t, late.NameArgs("b"), "it is not part of the image yet")
	require.NoError(t, p.Unload())
	require.NoError(t, probe.NameArgs("a"))
	require.NoError(t, p.Load())
	require.NoError(t, probe.NameArgs("a"), "nothing changes")
	require.Equal(t, []string{"a"}, probe.argNames())
	require.NoError(t, p.Unload())
}
