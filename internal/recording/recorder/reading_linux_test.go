package recorder

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// readAlways reads the clocks until its input ends. Then it prints by how much the readings differ in how far the time of day is ahead.
func readAlways(c clockReader) {
	var over atomic.Bool
	go func() {
		fmt.Println("reading")
		_, _ = io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	ahead := func() int64 {
		r := c.reading()
		return r.Realtime - r.Monotonic
	}
	least := ahead()
	most := least
	for !over.Load() {
		now := ahead()
		least, most = min(least, now), max(most, now)
	}
	fmt.Println(time.Duration(most - least))
}

// TestReadings: the clocks of a reading have the same moment, wherever the thread is interrupted. In a process that is stopped while it does
// nothing but reading, every tenth stop is between two clocks of the reading that would be the best but for that.
func TestReadings(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	clocks := []string{"monotonic"}
	if invariantCounter() {
		clocks = append(clocks, "counter")
	}
	for _, clock := range clocks {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "RECORDER_READING="+clock)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		lines := bufio.NewReader(out)
		require.Equal(t, "reading", testenv.Line(t, cmd, lines))
		const stops, stopped = 100, 5 * time.Millisecond
		for range stops {
			require.NoError(t, cmd.Process.Signal(unix.SIGSTOP))
			time.Sleep(stopped)
			require.NoError(t, cmd.Process.Signal(unix.SIGCONT))
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, in.Close())
		apart, err := time.ParseDuration(strings.TrimSpace(testenv.Line(t, cmd, lines)))
		require.NoError(t, err)
		require.Less(t, apart, stopped/2, "%s", clock)
	}
}
