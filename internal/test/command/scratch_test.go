//go:build linux && (amd64 || arm64)

package command_test

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

// scratchCommand is a container FROM scratch: a directory that has a program and nothing else, to be
// run with the words of a command in front of it.
func scratchCommand(t *testing.T, front []string, mounts, program string, args ...string) *exec.Cmd {
	t.Helper()
	root := t.TempDir()
	overwrite(t, program, filepath.Join(root, "program"))
	words := append(append(front, tracetest.Build(t, "jail"), root, mounts, "/program"), args...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = []string{} // and no $HOME or $TMPDIR
	t.Cleanup(func() {
		names, err := filepath.Glob(root + "/*")
		require.NoError(t, err)
		for _, name := range names {
			require.Contains(t, []string{"program", "proc", "sys"}, filepath.Base(name), "nothing else came into the container")
		}
	})
	return cmd
}

// TestScratch: the command, in a container with nothing but its binary, traces its neighbor,
// whose container has nothing but its own, and whose probes are therefore in memory.
func TestScratch(t *testing.T) {
	testenv.NeedsRoot(t)
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	nsenter := testenv.NeedsTool(t, "nsenter", "util-linux")
	p := tracetest.Command(t, scratchCommand(t, []string{unshare, "--pid", "--fork", "--kill-child"}, "proc", tracetest.Build(t, "subject")))
	p.Expect("ready", testenv.Patience)
	outside := strings.TrimSpace(string(must(os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.PID())))(t)))
	for name, c := range map[string]struct {
		front []string // the namespace of processes
		pid   string   // of the neighbor in it
	}{
		"host":     {nil, outside},                                                 // as with docker run --pid=host
		"neighbor": {[]string{nsenter, "--pid=/proc/" + outside + "/ns/pid"}, "1"}, // --pid=container:NAME
	} {
		t.Run(name, func(t *testing.T) {
			in := func(args ...string) *exec.Cmd { return scratchCommand(t, c.front, "proc,sys", stapsdt(t), args...) }
			list := runToEnd(t, in("list", "-p", c.pid))
			require.Zero(t, list.status)
			require.Contains(t, list.stdout, "subject:request__done(path string, status int32, elapsed time.Duration, cached bool)")
			for _, words := range [][]string{
				{"trace", "-o", "json", "-n", "3", "-p", c.pid, "subject:request__done"},
				{"trace", "-o", "json", "-n", "3", "-a", "subject:request__done", "-w", "pid == " + c.pid},
			} {
				tr := &tracer{tracetest.Command(t, in(words...)), t}
				require.Eventually(t, func() bool {
					return strings.Contains(string(must(exec.Command(stapsdt(t), "list", "-p", outside).Output())(t)), "traced now")
				}, testenv.Patience, 5*time.Millisecond)
				tell(p, "fire 3")
				events := tr.waitForEnd()
				first := events[0].Args["elapsed"].(float64)
				require.Equal(t, []any{first, first + 1e6, first + 2e6}, args(events, "elapsed"))
				require.Equal(t, c.pid, fmt.Sprint(events[0].PID))
			}
		})
	}

	t.Run("no sysfs", func(t *testing.T) {
		r := runToEnd(t, scratchCommand(t, nil, "proc", stapsdt(t), "trace", "-p", outside, "subject:request__done"))
		require.Equal(t, 1, r.status)
		require.Equal(t, "stapsdt: open /sys/devices/system/cpu/possible: no such file or directory; mount sysfs at /sys\n", r.stderr)
	})
}
