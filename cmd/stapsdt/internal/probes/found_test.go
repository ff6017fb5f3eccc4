//go:build linux

package probes

import (
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// refusing is a machine on which some processes may not be looked at.
type refusing map[int]*rights.Error

func (r refusing) Process(pid int) ([]target.Use, error, error) {
	if r[pid] != nil {
		return nil, nil, r[pid]
	}
	return nil, nil, nil
}

// TestHiddenInit: a machine that hides its first process from everyone is warned of to no one. Another
// process, or a right that is missing, is reported.
func TestHiddenInit(t *testing.T) {
	hidden := &rights.Error{Op: "reading", Err: unix.EACCES}
	lacking := &rights.Error{Op: "reading", Err: unix.EACCES, Missing: []rights.Capability{rights.Ptrace}}
	for name, c := range map[string]struct {
		refusing
		incomplete int
		hidden     bool
	}{
		"first":   {refusing{1: hidden}, 0, true},
		"both":    {refusing{1: hidden, 2: hidden}, 1, true},
		"another": {refusing{2: hidden}, 1, false},
		"lacking": {refusing{1: lacking}, 1, false},
	} {
		found, err := Look(c.refusing.Process, []int{1, 2, 3}, nil, nil)
		require.NoError(t, err, name)
		assert.Equal(t, c.incomplete, found.Incomplete, name)
		assert.Equal(t, c.incomplete > 0, found.Warning("traced") != "", name)
		assert.Equal(t, c.hidden, found.Hidden() != "", name)
	}
	_, err := Look(refusing{1: hidden}.Process, []int{1}, []int{1}, nil)
	assert.ErrorIs(t, err, unix.EACCES, "the process that was asked for")
}

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
