package stapsdt

import (
	"runtime/debug"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestObservedFault: a text that faults, as of a file that was truncated, panics in the program, as it
// has asked for, and not in an observer.
func TestObservedFault(t *testing.T) {
	p := newProvider(t, "fault")
	probe := NewProbe1[string](p, "probe")
	lines := watch(t, p)
	text := testenv.MissingText(t)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	require.Panics(t, func() { probe.Fire(text) })
	probe.Fire("text")
	require.Equal(t, []string{`fault:probe("text")`}, lines())
	requireNoneObserves(t)
}
