package kube

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestIgnoredSignals: SIGHUP stays ignored, as after nohup, and ends a request otherwise; SIGINT always does, as it is how a script
// ends a job in its background, where a shell ignores it.
func TestIgnoredSignals(t *testing.T) {
	const hangup, interrupt = 1 << (syscall.SIGHUP - 1), 1 << (syscall.SIGINT - 1)
	for _, args := range []string{"count deploy/web shop:done", "count -p default/web-1-a until:stopped", "record deploy/web shop:done -O recordings/"} {
		for trap, caught := range map[string]uint64{"HUP INT": interrupt, "": hangup | interrupt} {
			r := newRun(t, twoNodes(t, "web-1-a", "web-1-b"), strings.Fields(args)...)
			ignored := "exec"
			if trap != "" {
				ignored = "trap '' " + trap + "; exec"
			}
			r.command.Args = append([]string{"sh", "-c", ignored + ` "$0" "$@"`, r.command.Path}, strings.Fields(args)...)
			r.command.Path = "/bin/sh"
			require.NoError(t, r.command.Start())
			r.await("exec --stdin")
			require.Equal(t, caught, signalsOf(t, r.command.Process.Pid, "SigCgt")&(hangup|interrupt), "%s: %s", args, trap)
			require.Equal(t, hangup|interrupt-caught, signalsOf(t, r.command.Process.Pid, "SigIgn")&(hangup|interrupt), "%s: %s", args, trap)
			require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
			assert.Zero(t, r.wait(), r.err.String())
		}
	}
}

// signalsOf returns a set of signals of a process.
func signalsOf(t *testing.T, pid int, set string) uint64 {
	status, err := proc.ReadStatus(pid)
	require.NoError(t, err)
	signals, err := strconv.ParseUint(status.Word(set, 0), 16, 64)
	require.NoError(t, err)
	return signals
}
