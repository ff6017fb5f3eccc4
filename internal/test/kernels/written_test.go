//go:build linux && (amd64 || arm64)

package kernels

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestCommandWritten: the command has a lease on a file that it is attached to. It detaches before the
// file is opened for writing, and attaches to what was written.
func TestCommandWritten(t *testing.T) {
	server := startServer(t)
	image := tracetest.ProbesFile(t, server.PID(), "guestserver")
	content, err := os.ReadFile(image)
	require.NoError(t, err)

	tracer := tracetest.Command(t, exec.Command(commandPath(t), "trace", "-o", "json", "-a", "guestserver:*"))
	for range 3 {
		await(t, "the command to attach", tracer, func() bool { return enabled(server, "first") })
		_, err = os.OpenFile(image, os.O_WRONLY|unix.O_NONBLOCK, 0)
		require.ErrorIs(t, err, unix.EAGAIN, "there is no lease")

		start := time.Now()
		writer, err := os.OpenFile(image, os.O_WRONLY, 0)
		require.NoError(t, err)
		if waited := time.Since(start); !testing.Short() { // with twice the bound, the kernel has taken the lease away
			testenv.Figure(t, "an open waits", waited.Seconds(), breakTime(t).Seconds()/2, "s")
		}
		require.False(t, enabled(server, "first"), "it is attached to a file that is written")
		lines := len(tracer.Lines())
		_, err = writer.Write(content)
		require.NoError(t, err)
		require.NoError(t, writer.Close())
		await(t, "events after the file was written", tracer, func() bool { return enabled(server, "first") && len(tracer.Lines()) > lines })
	}
}

// breakTime is how long the kernel waits for a tracer that does not give its lease up.
func breakTime(t *testing.T) time.Duration {
	text, err := os.ReadFile("/proc/sys/fs/lease-break-time")
	require.NoError(t, err)
	seconds, err := time.ParseDuration(string(text[:len(text)-1]) + "s")
	require.NoError(t, err)
	return seconds
}
