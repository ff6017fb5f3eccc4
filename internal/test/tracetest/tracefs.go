//go:build linux

package tracetest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// tracefsEvents is where tracers look for the kernel's tracepoints.
const tracefsEvents = "/sys/kernel/tracing/events"

// tracefsScript is a file and not a -c argument because the words of $BPFTRACE have no spaces in them.
//
//go:embed testdata/tracefs.sh
var tracefsScript []byte

// NeedTracefs is [testenv.Needs] for the kernel's tracepoints, and for root. Where tracefs is not mounted, every [Bpftrace] that
// the test starts from now on runs in a mount namespace of its own that has it, and the machine stays as it is. It sets
// $BPFTRACE for that, so the test cannot be parallel.
func NeedTracefs(t testing.TB) {
	t.Helper()
	testenv.NeedsRoot(t)
	if _, err := os.Stat(tracefsEvents); err == nil {
		return
	}
	bpftrace := BpftraceCommand(t)
	script := filepath.Join(t.TempDir(), "tracefs.sh")
	if err := os.WriteFile(script, tracefsScript, 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Needs(t, "tracefs", exec.Command("sh", script, "test", "-d", filepath.Join(tracefsEvents, "sched")).Run())
	t.Setenv("BPFTRACE", strings.Join(append([]string{"sh", script}, bpftrace...), " "))
}

// TracefsMain is for a TestMain whose tests ask a machine about its tracefs: where it is not mounted, they run in a mount
// namespace of their own that has it. Without root, it does nothing.
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

// insideTracefs keeps TracefsMain from running tests again and again where there is no tracefs.
const insideTracefs = "STAPSDT_TEST_TRACEFS"
