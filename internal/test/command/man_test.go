//go:build linux && (amd64 || arm64)

package command_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestMan: every verb has a page, and mandoc reports nothing about any.
func TestMan(t *testing.T) {
	mandoc := testenv.NeedsTool(t, "mandoc", "mandoc")
	dir := filepath.Join(t.TempDir(), "man1")
	require.Zero(t, runCommand(t, "man", dir).status)
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	require.NoError(t, err)
	require.Subset(t, pages, []string{dir + "/stapsdt.1", dir + "/stapsdt-list.1", dir + "/stapsdt-trace.1", dir + "/stapsdt-script.1"})
	out, err := exec.Command(mandoc, append([]string{"-T", "lint", "-W", "warning"}, pages...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
	text, err := exec.Command(mandoc, "-T", "utf8", dir+"/stapsdt-trace.1").Output()
	require.NoError(t, err)
	require.Contains(t, string(text), "debugprobe")
	require.Equal(t, 2, runCommand(t, "man").status)
}
