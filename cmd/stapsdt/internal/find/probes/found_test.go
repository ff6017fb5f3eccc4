//go:build linux

package probes

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"

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
		assert.Equal(t, c.hidden, found.Hidden(true) != "", name)
		assert.Empty(t, found.Hidden(false), name)
	}
	_, err := Look(refusing{1: hidden}.Process, []int{1}, []int{1}, nil)
	assert.ErrorIs(t, err, unix.EACCES, "the process that was asked for")
}
