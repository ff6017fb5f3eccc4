package operation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDerived: all types of package context that have a parent are known. Package span tests that their parents are found.
func TestDerived(t *testing.T) {
	require.Len(t, derived(), 5, "this version of package context is not known")
}
