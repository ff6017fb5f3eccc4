package proberec

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"

	"github.com/stretchr/testify/require"
)

// TestStartOften: however often a recorder is started and stopped, and whoever defines the provider again, each probe has one entry in the
// table, and each event is there.
func TestStartOften(t *testing.T) {
	const probes, rounds = 50, 400
	r := New(4 << 20)
	define := func() (p *stapsdt.Provider, all []*stapsdt.Probe2[int, string]) {
		p = stapsdt.NewProvider("shop")
		for i := range probes {
			all = append(all, stapsdt.NewProbe2[int, string](p, fmt.Sprintf("request%d__done", i), "status", "path"))
		}
		return p, all
	}
	p, all := define()
	r.providers = append(r.providers, p)
	for round := range rounds {
		if round == rounds/2 {
			p.Close()
			p, all = define()
			defer p.Close()
			r.providers[0] = p
		}
		r.Start()
		for _, probe := range all {
			probe.Fire(round, "/")
		}
		r.Stop()
	}
	var file bytes.Buffer
	_, err := r.WriteTo(&file)
	require.NoError(t, err)
	reader := eventtest.Read(t, bytes.NewReader(file.Bytes()))
	seen, numbers := 0, map[uint32]bool{}
	for e := range eventtest.Events(t, reader) {
		numbers[e.Number] = true
		seen++
	}
	require.Equal(t, probes*rounds, seen)
	require.Len(t, numbers, probes)
	require.Zero(t, reader.Lost())
}
