//go:build !stapsdt_noload

package recorder

import (
	"runtime"
	"strings"
	"testing"
	_ "unsafe" // for linkname

	"github.com/stretchr/testify/require"
)

// getm returns the M of the calling goroutine.
//
//go:linkname getm runtime.getm
func getm() uintptr

// TestG: the fields of the runtime's g are at the offsets that the assembly uses, also in a version of Go that is not
// released yet. A release must be one of testedReleases: if this test fails for that alone, add it.
func TestG(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.Equal(t, getm(), thread(), "the M is elsewhere: see RATIONALE.md")
	require.True(t, found(offGoid, offFault), "the number, or what SetPanicOnFault sets, is elsewhere")
	require.False(t, found(offGoid+8, offFault))
	require.False(t, found(offGoid, offFault+1))
	require.True(t, foundM(offM), "the M is elsewhere: see RATIONALE.md")
	require.False(t, foundM(offGoid-8), "the status is the same in two goroutines that run")
	require.False(t, foundM(offM-16), "no goroutine panics")
	if version := runtime.Version(); !strings.ContainsAny(version, " -+") {
		require.True(t, tested(version), "%s is not in testedReleases", version)
	}
}
