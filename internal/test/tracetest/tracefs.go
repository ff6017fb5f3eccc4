//go:build linux

package tracetest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// tracefsEvents is where tracers look for the kernel's tracepoints.
const tracefsEvents = "/sys/kernel/tracing/events"

// insideTracefs keeps TracefsMain from running tests again and again where there is no tracefs.
const insideTracefs = "STAPSDT_TEST_TRACEFS"

// TracefsMain is for a TestMain whose tests need tracefs, or ask the machine about it: where it is not mounted, they run in a mount
// namespace of their own that has it, and the machine stays as it is. Without root, it does nothing.
func TracefsMain() {
	if _, err := os.Stat(tracefsEvents); err == nil || os.Geteuid() != 0 || os.Getenv(insideTracefs) != "" {
		return
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return // the tests that need it say so
	}
	args := append([]string{"unshare", "--mount", "sh", "-euc", `mount -t tracefs nodev /sys/kernel/tracing || :; exec "$@"`, "sh"}, os.Args...)
	if err := syscall.Exec(unshare, args, append(os.Environ(), insideTracefs+"=yes")); err != nil {
		panic(err)
	}
}

// NeedTracefs is [testenv.Needs] for the kernel's tracepoints, and for root. The TestMain calls [TracefsMain].
func NeedTracefs(t testing.TB) {
	t.Helper()
	testenv.NeedsRoot(t)
	_, err := os.Stat(tracefsEvents)
	testenv.Needs(t, "tracefs", err)
}
