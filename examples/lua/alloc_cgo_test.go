//go:build linux && cgo

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesAllocated(t *testing.T) {
	bytes := table(t, run(t, "malloc.bt", "memory"), "bytes")
	require.Equal(t, 10<<20, bytes["allocate"])
	require.Zero(t, bytes["fill"])
}
