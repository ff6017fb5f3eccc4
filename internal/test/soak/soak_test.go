//go:build linux && (amd64 || arm64)

package main

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestPhases does a little of each phase.
func TestPhases(t *testing.T) {
	bpf.Need(t)
	for _, p := range phases {
		t.Run(p.name, func(t *testing.T) {
			p = p.scaled(0.001)
			res, err := p.execute(testenv.Patience)
			require.NoError(t, err)
			require.Equal(t, p.cycles, res.Cycles)
			require.GreaterOrEqual(t, res.Fired, uint64(p.fires/p.cycles*p.cycles))
			require.Equal(t, res.Fired, res.Seen)
			require.GreaterOrEqual(t, res.Free, res.FreeSeen)
			require.Len(t, res.Notes, len(p.disturb))
		})
	}
}
