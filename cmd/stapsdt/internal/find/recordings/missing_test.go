//go:build linux

package recordings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMissing: a process whose environment requests a recording that is not there is found.
func TestMissing(t *testing.T) {
	asked, other := startWith(t, "STAPSDT_RECORD=/run/stapsdt/rec/app.rec,1M"), startWith(t, "STAPSDT_RECORD=")
	pids := []int{asked, other}
	require.Equal(t, []int{asked}, Missing(pids, nil))
	require.Equal(t, []int{asked}, Missing(pids, []Recording{{PID: asked, Kept: true}, {PID: other}}))
	require.Empty(t, Missing(pids, []Recording{{PID: asked}}))
}
