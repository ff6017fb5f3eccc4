//go:build linux

// Package debian gives tests the files of Debian's packages, of any release and architecture.
// They are downloaded when a test asks for them and kept in $STAPSDT_CACHE, by default
// ~/.cache/stapsdt. Nothing in them is run.
package debian

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// Cache returns the directory of downloaded packages. Its parent is that of scripts/lib.
func Cache(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("STAPSDT_CACHE")
	if dir == "" {
		home, err := os.UserCacheDir()
		require.NoError(t, err)
		dir = filepath.Join(home, "stapsdt")
	}
	dir = filepath.Join(dir, "corpus")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// State returns the directory of apt's state for a release and an architecture. Scripts share it.
func State(t testing.TB, suite, arch string) string {
	t.Helper()
	return filepath.Join(filepath.Dir(Cache(t)), "apt", suite+"-"+arch)
}

// Apt runs apt-get for a release and an architecture in a directory. A test gives the error to [testenv.Downloads].
func Apt(t testing.TB, dir, suite, arch string, args ...string) error {
	t.Helper()
	testenv.NeedsTool(t, "apt-get", "apt")
	testenv.NeedsTool(t, "dpkg-deb", "dpkg")
	_, self, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(self), "../../../scripts/lib/debian.sh")
	cmd := exec.Command("bash", append([]string{"-c", `. "$0" && foreign_apt "$@"`, script, State(t, suite, arch), suite, arch, "apt-get", "-qq"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Unpack returns the directory of a package's files.
func Unpack(t testing.TB, suite, arch, name string) (tree string, err error) {
	t.Helper()
	tree = filepath.Join(Cache(t), arch+"-"+suite, name)
	if _, err := os.Stat(tree); err == nil {
		return tree, nil
	}
	work, err := os.MkdirTemp(Cache(t), "new-")
	require.NoError(t, err)
	defer os.RemoveAll(work)
	if err := Apt(t, work, suite, arch, "download", name); err != nil {
		return "", err
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	require.NoError(t, err)
	require.Len(t, debs, 1)
	files := filepath.Join(work, "files")
	out, err := exec.Command("dpkg-deb", "-x", debs[0], files).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.MkdirAll(filepath.Dir(tree), 0o755))
	// A test of another package may have been faster.
	if err := os.Rename(files, tree); err != nil {
		require.DirExists(t, tree)
	}
	return tree, nil
}
