//go:build linux && (amd64 || arm64)

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"golang.org/x/sys/unix"
)

// TestMain lets this program play kubectl, and become the first process of a container.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(callKubectl(os.Args[1:]))
	}
	tracetest.ParallelMain(4) // the tests wait most of the time
	// What processes take would depend on whether the machine gives them huge pages.
	if err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "huge pages:", err)
	}
	if isInMemory(os.TempDir()) {
		os.Setenv("TMPDIR", "/var/tmp")
	}
	tracetest.Main(m, map[string]func([]string){"container": becomeContainer})
}

// isInMemory reports whether the files of a directory are in memory. Of programs there, the kernel counts the text as memory that
// their processes share, as it does not of a container's image.
func isInMemory(directory string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(directory, &fs) == nil && fs.Type == unix.TMPFS_MAGIC
}

// needsDisk is [testenv.NeedsMachine] for a directory of temporary files that are not in memory.
func needsDisk(t testing.TB) {
	t.Helper()
	errInMemory := errors.New(os.TempDir() + " is in memory")
	var err error
	if isInMemory(os.TempDir()) {
		err = errInMemory
	}
	testenv.NeedsMachine(t, "temporary files on a disk", err, errInMemory)
}
