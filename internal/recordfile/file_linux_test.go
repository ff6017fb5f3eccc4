package recordfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeadOfProcess: the texts of /proc are decoded.
func TestHeadOfProcess(t *testing.T) {
	require.EqualValues(t, 4242, startTime("1 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 7 8"))
	require.Zero(t, startTime("1 (a"))
	require.Equal(t, [16]byte{1, 2, 15: 255}, bootID("01020000-0000-0000-0000-0000000000ff\n"))
	require.Zero(t, bootID("none"))
}
