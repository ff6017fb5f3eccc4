//go:build linux

package table

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// lttngSubject is the name of the C program with tracepoints of LTTng-UST.
const lttngSubject = "lttng"

// lttng is the name of a session of LTTng that is tracing: its daemon copies the events to files of the directory of the same name.
type lttng string

// startLTTng starts the daemon, unless one runs, and a session. The channel's buffers have 32 MB for each processor, as
// much as a watcher's.
func startLTTng(t testing.TB) lttng {
	if exec.Command("lttng", "--no-sessiond", "list").Run() != nil {
		daemon := tracetest.Command(t, exec.Command("lttng-sessiond", "--no-kernel"))
		t.Cleanup(func() {
			daemon.Signal(os.Interrupt)
			_ = daemon.Wait(testenv.Patience)
		})
		require.Eventually(t, func() bool { return exec.Command("lttng", "--no-sessiond", "list").Run() == nil }, testenv.Patience, 100*time.Millisecond)
	}
	l := lttng(filepath.Base(*images))
	for _, args := range [][]string{
		{"create", string(l), "--output=" + filepath.Join(*images, string(l))},
		{"enable-channel", "-s", string(l), "-u", "--subbuf-size=4M", "--num-subbuf=8", "events"},
		{"enable-event", "-s", string(l), "-u", "-c", "events", "stapsdt_bench:*"},
		{"start", string(l)},
	} {
		lttngCommand(t, args...)
	}
	return l
}

func lttngCommand(t testing.TB, args ...string) {
	out, err := exec.Command("lttng", append([]string{"--no-sessiond"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
	if strings.Contains(string(out), "discarded") {
		progress(string(out))
	}
}

// stop ends the session. It fails when the files cannot have the events that were fired: some of LTTng's take
// as little as eight bytes.
func (l lttng) stop(t testing.TB, fired int) {
	lttngCommand(t, "stop", string(l))
	lttngCommand(t, "destroy", string(l))
	out := tracetest.Must(exec.Command("du", "--bytes", "--summarize", filepath.Join(*images, string(l))).Output())(t)
	var size int
	_, err := fmt.Sscan(string(out), &size)
	require.NoError(t, err)
	require.GreaterOrEqual(t, size, 8*fired)
}
