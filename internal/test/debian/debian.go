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
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// cache returns the directory that scripts/lib has, too.
func cache(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("STAPSDT_CACHE"); dir != "" {
		return dir
	}
	home, err := os.UserCacheDir()
	require.NoError(t, err)
	return filepath.Join(home, "stapsdt")
}

// Unpack returns the directory of a package's files. A test gives the error to [testenv.Downloads].
func Unpack(t testing.TB, suite, arch, name string) (tree string, err error) {
	t.Helper()
	tree = filepath.Join(cache(t), "corpus", arch+"-"+suite, name)
	if _, err := os.Stat(tree); err == nil {
		return tree, nil
	}
	testenv.NeedsTool(t, "apt-get", "apt")
	testenv.NeedsTool(t, "dpkg-deb", "dpkg")
	require.NoError(t, os.MkdirAll(filepath.Dir(tree), 0o755))
	work, err := os.MkdirTemp(filepath.Dir(tree), "new-")
	require.NoError(t, err)
	defer os.RemoveAll(work)
	_, self, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(self), "../../../scripts/lib/debian.sh")
	cmd := exec.Command("bash", "-c", `. "$0" && foreign_apt "$@"`, script, filepath.Join(cache(t), "apt", suite+"-"+arch), suite, arch, "apt-get", "-qq", "download", name)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("apt-get download %s: %w: %s", name, err, out)
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	require.NoError(t, err)
	require.Len(t, debs, 1)
	files := filepath.Join(work, "files")
	out, err := exec.Command("dpkg-deb", "-x", debs[0], files).CombinedOutput()
	require.NoError(t, err, "%s", out)
	// A test of another package may have been faster.
	if err := os.Rename(files, tree); err != nil {
		require.DirExists(t, tree)
	}
	return tree, nil
}
