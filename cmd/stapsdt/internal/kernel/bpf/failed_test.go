//go:build linux

package bpf

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFailed: returns of functions have the variable failed, unless a result has this name or the
// results are unknown.
func TestFailed(t *testing.T) {
	of := func(isReturn bool, names ...string) *Probe {
		p := &Probe{Provider: "go", Name: "main.f", Function: &FunctionSite{Return: isReturn}}
		for _, name := range names {
			p.Args = append(p.Args, Arg{Arg: sdt.Arg{Name: name, Size: 8}})
		}
		return p
	}
	for _, p := range []*Probe{of(true), of(true, "n"), of(true, "n", "err")} {
		e, err := p.Parse("failed")
		require.NoError(t, err)
		assert.Equal(t, expr.Bool, e.Type().Kind)
	}
	e, err := of(true, "failed").Parse("failed")
	require.NoError(t, err)
	assert.Equal(t, expr.Uint, e.Type().Kind)
	unknown := of(true)
	unknown.ArgsErr = assert.AnError
	for _, p := range []*Probe{of(false), unknown, {Provider: "a", Name: "b"}} {
		_, err := p.Parse("failed")
		require.Error(t, err)
	}
	one := of(true, "n", "err", "e")
	one.Args[1].Type, one.Args[1].Dynamic = &sdt.Type{Name: "error"}, true
	one.Args[2].Type, one.Args[2].Dynamic = &sdt.Type{Name: "any"}, true
	assert.Equal(t, []bool{false, true, false}, []bool{one.IsError(0), one.IsError(1), one.IsError(2)})
}
