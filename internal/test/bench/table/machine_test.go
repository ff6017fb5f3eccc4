//go:build linux

package table

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/site"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var modelLine = regexp.MustCompile(`(?m)^model name\s*:\s*(.*)$`)

// describeMachine returns a sentence that says what the figures are of, and the name of its
// processors.
func describeMachine(t *testing.T) (machine, processors string) {
	var uts unix.Utsname
	require.NoError(t, unix.Uname(&uts))
	says := func(words ...string) string {
		out, err := exec.Command(words[0], words[1:]...).Output()
		require.NoError(t, err, "%v", words)
		return strings.TrimSpace(string(out))
	}
	cpu := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := modelLine.FindSubmatch(info); m != nil {
			cpu = string(m[1])
		}
	}
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(*images, &fs))
	place := "on a disk"
	if fs.Type == unix.TMPFS_MAGIC {
		place = "on tmpfs"
	}
	// What follows the version is the builder's.
	kernel, _, _ := strings.Cut(unix.ByteSliceToString(uts.Release[:]), "-")
	return fmt.Sprintf("Linux %s (sites: %s), %d × %s, %s, gcc %s, %s, images %s", kernel, site.Chosen().Name, runtime.NumCPU(), cpu,
		strings.Replace(runtime.Version(), "go", "Go ", 1), says("gcc", "-dumpfullversion"), says("bpftrace", "--version"), place), cpu
}
