//go:build !stapsdt_noload

package recorder

import (
	"fmt"
	"runtime"
	"runtime/debug"
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
	var trace [64]byte
	runtime.Stack(trace[:], false)
	require.Regexp(t, fmt.Sprintf(`^goroutine %d `, field[uint64](offGoid)), string(trace[:]), "the number is elsewhere")
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(false))
	for range 2 {
		require.EqualValues(t, 0, field[byte](offFault), "what SetPanicOnFault sets is elsewhere")
		debug.SetPanicOnFault(true)
		require.EqualValues(t, 1, field[byte](offFault), "what SetPanicOnFault sets is elsewhere")
		debug.SetPanicOnFault(false)
	}
	if version := runtime.Version(); !strings.ContainsAny(version, " -+") {
		require.True(t, tested(version), "%s is not in testedReleases", version)
	}
}
