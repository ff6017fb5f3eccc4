//go:build linux && !cgo

package main

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

func TestBytesAllocated(t *testing.T) {
	tracetest.NeedTracefs(t)
	bytes := tracetest.Table(t, run(t, "mmap.bt", "memory"), "bytes")
	// The Go runtime may map something for itself meanwhile.
	require.GreaterOrEqual(t, bytes["allocate"], 10<<20)
	require.Less(t, bytes["allocate"], 12<<20)
	require.Less(t, bytes["fill"], 1<<20)
}
