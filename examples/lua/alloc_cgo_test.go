//go:build linux && cgo

package main

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

func TestBytesAllocated(t *testing.T) {
	bytes := tracetest.Table(t, run(t, "malloc.bt", "memory"), "bytes")
	require.Equal(t, 10<<20, bytes["allocate"])
	require.Zero(t, bytes["fill"])
}
