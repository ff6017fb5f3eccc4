//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestStuckReader: a signal ends a command whose output nobody reads, and nothing stays attached.
func TestStuckReader(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	p := startGoSubject(t)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer reader.Close()
	defer writer.Close()
	cmd := exec.Command(stapsdt(t), "trace", "-p", pid(p), "subject:*")
	cmd.Stdout = writer
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.Eventually(t, func() bool { return isTraced(t, p) }, testenv.Patience, 10*time.Millisecond)
	for range 40 { // until the pipe is full
		tell(p, "fire 1000")
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	select {
	case err := <-ended:
		var status *exec.ExitError
		require.ErrorAs(t, err, &status)
		require.Equal(t, 1, status.ExitCode())
	case <-time.After(testenv.Patience):
		require.Fail(t, "it has not ended")
	}
	require.Eventually(t, func() bool { return !isTraced(t, p) }, testenv.Patience, 10*time.Millisecond)
}
