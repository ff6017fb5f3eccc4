package query

import (
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/stretchr/testify/require"
)

// TestUnfit: of the probes that an expression does not fit, one that has its names says why.
func TestUnfit(t *testing.T) {
	var u Unfit
	for _, msg := range []string{"undefined: s; the nearest name is a", "mismatched types", "another"} {
		u.Add(fmt.Errorf("p:n: %w", &expr.Error{Msg: msg}))
	}
	require.ErrorContains(t, u.Err(), "mismatched types")
	require.Equal(t, "3 of 4 probes are left out, one because of this: p:n: mismatched types (byte 0)", u.Take(4))
	for _, one := range []*expr.Error{{Msg: "undefined: s"}, {Msg: "undefined: s; the nearest name is t", Near: true}, {Msg: "undefined: s"}} {
		u.Add(one)
	}
	require.ErrorContains(t, u.Err(), "the nearest name is t")
	u.Take(4)
	u.Add(&expr.Error{Msg: "undefined: s"})
	require.Equal(t, "1 of 4 probes has no s and is left out", u.Take(4))
}
