//go:build linux

package tracetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Need lets a test go on where err is nil. Otherwise the test cannot be run here: it is skipped, or, where the
// environment says CI=true, failed, so that a machine which lost a tracer does not go on as a green one.
func Need(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI needs %s: %v", what, err)
	}
	t.Skipf("needs %s: %v", what, err)
}

// NeedRoot is [Need] for an effective user of 0, which perf_event_open and bpf ask for.
func NeedRoot(t testing.TB) {
	t.Helper()
	Need(t, "root", rootError())
}

func rootError() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("the user is %d", uid)
	}
	return nil
}

// NeedTool is [Need] for a program in $PATH, which it returns the path of. The package is what to install.
func NeedTool(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	Need(t, name+" (package "+pkg+")", err)
	return path
}

// NeedUprobes is [Need] for the kernel's uprobe PMU, and for root, without which it is of no use.
func NeedUprobes(t testing.TB) {
	t.Helper()
	_, err := os.Stat(uprobePMU)
	Need(t, "uprobes", errors.Join(err, rootError()))
}

var kernelVersion = sync.OnceValues(func() ([2]int, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return [2]int{}, err
	}
	return parseRelease(unix.ByteSliceToString(u.Release[:]))
})

// KernelAtLeast reports whether the running kernel is of this version or later. It panics when the kernel's release is
// not one, as that is nothing a test could decide on.
func KernelAtLeast(major, minor int) bool {
	v, err := kernelVersion()
	if err != nil {
		panic(err)
	}
	return v[0] > major || v[0] == major && v[1] >= minor
}

// parseRelease reads the two numbers that "6.18.44-fc", "7.2-rc1" and "6.1" begin with.
func parseRelease(release string) ([2]int, error) {
	var v [2]int
	major, rest, _ := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	for i, s := range []string{major, rest[:end]} {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return v, fmt.Errorf("kernel release %q: %w", release, err)
		}
		v[i] = int(n)
	}
	return v, nil
}
