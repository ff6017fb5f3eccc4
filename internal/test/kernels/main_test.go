//go:build linux && (amd64 || arm64)

package kernels

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"golang.org/x/sys/unix"
)

// starting is how long a test waits for a tracer to start and attach. It is long because guests are emulated, on machines that do other things too.
const starting = 4 * time.Minute

// testedBy skips a short test on a machine where another package holds the same, so not in a guest.
func testedBy(t *testing.T, other string) {
	t.Helper()
	if _, err := os.Stat("../../../cmd/stapsdt"); err == nil {
		testenv.Long(t, "internal/test/"+other+" holds the same on this kernel")
	}
}

func TestMain(m *testing.M) {
	if os.Getpid() == 1 {
		runGuest()
		return
	}
	tracetest.Main(m, map[string]func([]string){"subject": runSubject, "server": runServer, "shop": runShop})
}

// release returns the kernel's release, as uname -r prints it.
func release() string {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "?"
	}
	return unix.ByteSliceToString(uts.Release[:])
}

// otherTests is a test binary that runs instead of this one, where it exists.
const otherTests = "/tests"

// runGuest is what the test binary does as the first process of a guest. The
// tests get a process of their own and the arguments of this one, which are what
// follows "--" on the kernel's command line. This process survives them if they
// crash or time out. The last line that it prints is "guest: passed" if they pass,
// and says otherwise why not.
func runGuest() {
	defer powerOff()
	verdict := "passed"
	if err := mountAndRun(); err != nil {
		verdict = err.Error()
	}
	fmt.Println("guest:", verdict)
}

func mountAndRun() error {
	if err := mountAll(); err != nil {
		return err
	}
	tests := exec.Command("/proc/self/exe", os.Args[1:]...)
	if _, err := os.Stat(otherTests); err == nil {
		tests = exec.Command(otherTests, os.Args[1:]...)
	}
	tests.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/tmp",
		"CI=true", // a test fails, and is not skipped, if the guest lacks what it needs
	}
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	return tests.Run()
}

// mountAll mounts what a root of empty directories lacks.
func mountAll() error {
	for _, m := range []struct{ source, target, kind, data string }{
		{"proc", "/proc", "proc", ""},
		{"sysfs", "/sys", "sysfs", ""},
		{"devtmpfs", "/dev", "devtmpfs", ""},
		{"tmpfs", "/tmp", "tmpfs", "mode=1777"},
	} {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.kind, 0, m.data); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	// The kernel may lack these. A test that needs one of them then fails and
	// names it.
	unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, "")
	unix.Mount("debugfs", "/sys/kernel/debug", "debugfs", 0, "")
	unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, "")
	unix.Mount("securityfs", "/sys/kernel/security", "securityfs", 0, "")
	os.Symlink("/proc/self/fd", "/dev/fd")
	return loopback()
}

// loopback lets processes talk to each other by 127.0.0.1.
func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo)
}

// powerOff ends the guest.
func powerOff() {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("power off:", err)
	}
}
