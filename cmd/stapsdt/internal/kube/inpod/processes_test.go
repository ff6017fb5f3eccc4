//go:build linux

package inpod

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestIsOf: the outermost ID of a control group is that of the container.
func TestIsOf(t *testing.T) {
	a, b := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	for groups, want := range map[string]bool{
		"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + a + ".scope\n": true,
		"0::/kubepods/burstable/pod1/" + a + "\n":                                 true,
		"0::/../crio-" + a + ".scope\n":                                           true,
		"0::/../" + a + "/own/" + b + "\n":                                        true,
		"0::/../" + b + "/" + a + "\n":                                            false, // a forgery
		"0::/../crio-conmon-" + a + ".scope\n":                                    false,
		"12:pids:/user.slice\n4:memory:/kubepods/pod1/" + a + "\n0::/\n":          true,
		"0::/\n":                       false,
		"0::/x" + a + "\n":             false,
		"0::/docker-" + b + ".scope\n": false,
		"garbage\n":                    false,
	} {
		assert.Equal(t, want, isOf(groups, a), groups)
	}
}

// TestFind: without control groups, it is the first process of a namespace of its own, and otherwise an error.
func TestFind(t *testing.T) {
	none := strings.Repeat("00", 32)
	_, err := Find(none, false)
	require.ErrorIs(t, err, proc.ErrNoProcess)
	pids, err := Find(none, true)
	require.NoError(t, err)
	require.Equal(t, []int{1}, pids)
	answer, err := Look(none, true)
	require.NoError(t, err)
	assert.EqualValues(t, os.Getuid(), answer.UID)
	assert.EqualValues(t, os.Getgid(), answer.GID)
	require.NotEmpty(t, answer.Processes)
	assert.Equal(t, 1, answer.Processes[0].PID)
	var found []int
	for _, p := range answer.Processes {
		found = append(found, p.PID)
	}
	ancestor := os.Getpid()
	for ancestor > 1 {
		ancestor = proc.Parent(ancestor)
	}
	if ancestor == 1 { // it is 0 for a process that has entered the namespace
		assert.Contains(t, found, os.Getpid(), "the descendants belong to the container")
	}
}

// TestInput: a byte stops a command, and the end of the input also tells that the other side has gone.
func TestInput(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	stopped, gone := ReadInput(r)
	require.NoError(t, stopped.Err())
	_, err = w.WriteString("\n")
	require.NoError(t, err)
	<-stopped.Done()
	require.NoError(t, gone.Err())
	w.Close()
	<-gone.Done()
	require.ErrorIs(t, gone.Err(), context.Canceled)
}
