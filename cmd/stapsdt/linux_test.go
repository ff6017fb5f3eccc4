//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestWithoutSocket: a process whose environment has asked it to listen is not advised to be started so.
func TestWithoutSocket(t *testing.T) {
	for value, want := range map[string]string{
		"0": "; to need none, start the program with STAPSDT_SOCKET=1",
		"1": "; the environment of process %d has STAPSDT_SOCKET=1, but it has not made its socket: its log has the reason",
	} {
		sleep := exec.Command("sleep", "1h")
		sleep.Env = append(os.Environ(), "STAPSDT_SOCKET="+value)
		require.NoError(t, sleep.Start())
		t.Cleanup(func() {
			_ = sleep.Process.Kill()
			_ = sleep.Wait()
		})
		// The kernel closes the pipe by which Start waits for execve before the process has its environment.
		require.Eventually(t, func() bool { return proc.Environment(sleep.Process.Pid)("STAPSDT_SOCKET") == value }, testenv.Patience, time.Millisecond)
		if value == "1" {
			want = fmt.Sprintf(want, sleep.Process.Pid)
		}
		c := &cobra.Command{}
		pids := processList{Target: &query.Target{PIDs: []int{sleep.Process.Pid}}}
		c.Flags().Var(pids, "pid", "")
		require.Contains(t, withoutRights(c), want)
	}
}
