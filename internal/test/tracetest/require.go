//go:build linux

package tracetest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"golang.org/x/sys/unix"
)

// NeedUprobes is [testenv.Needs] for the kernel's uprobe PMU, and for root, without which it is of no use.
func NeedUprobes(t testing.TB) {
	t.Helper()
	_, err := os.Stat(uprobePMU)
	testenv.NeedsRoot(t)
	testenv.Needs(t, "uprobes", err)
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
