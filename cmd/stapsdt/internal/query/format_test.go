package query

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIsJSON: a format that a verb of two does not have is not one of the two.
func TestIsJSON(t *testing.T) {
	require.False(t, Text.IsJSON())
	require.True(t, JSON.IsJSON())
	for _, f := range append(Formats[2:], "xml") {
		require.Panics(t, func() { f.IsJSON() }, f)
	}
}
