//go:build linux

package tracetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// clocksource is where a recorder finds which clock the kernel uses.
const clocksource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// ClockSource lets cmd, which has not been started, find another clock source of the kernel than this machine's, such as tsc or kvm-clock, in a mount
// namespace of its own. The process is still the program's, with its PID.
func ClockSource(t testing.TB, cmd *exec.Cmd, name string) {
	t.Helper()
	testenv.NeedsRoot(t)
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	_, err := os.Stat(clocksource)
	testenv.NeedsMachine(t, "clock source", err, os.ErrNotExist)
	file := filepath.Join(t.TempDir(), "clocksource")
	if err := os.WriteFile(file, []byte(name+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const script = `mount --bind "$0" ` + clocksource + ` && exec "$@"`
	cmd.Args = append([]string{unshare, "--mount", "sh", "-c", script, file, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = unshare
}
