//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// binutils runs a program of this package.
func binutils(t testing.TB, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(testenv.NeedsTool(t, name, "binutils"), args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// separate strips a program, and returns the file with its debug information.
func separate(t testing.TB, path string) (debug string) {
	t.Helper()
	debug = filepath.Join(t.TempDir(), "program.debug")
	binutils(t, "objcopy", "--only-keep-debug", path, debug)
	binutils(t, "strip", path)
	return debug
}

// linkDebugFile strips a program, and puts the file with its debug information in .debug beside it.
func linkDebugFile(t testing.TB, path string) (flags []string) {
	t.Helper()
	debug, directory := separate(t, path), filepath.Join(filepath.Dir(path), ".debug")
	binutils(t, "objcopy", "--add-gnu-debuglink="+debug, path)
	require.NoError(t, os.Mkdir(directory, 0o755))
	content, err := os.ReadFile(debug)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(directory, "program.debug"), content, 0o600))
	return nil
}

// nameDebugFile strips a program, and names the file with its debug information.
func nameDebugFile(t testing.TB, path string) (flags []string) {
	t.Helper()
	return []string{"--debug-file", separate(t, path)}
}

// TestSeparateConstants: the constants of a program's types are found in its debug file.
func TestSeparateConstants(t *testing.T) {
	testenv.NeedsRoot(t)
	path := tracetest.BuildFiles(t, map[string]string{
		"go.mod": "module generated\n\ngo 1.22\n", "main.go": closer, "kinds.v2/kinds.go": kinds,
	}, nil)
	linkDebugFile(t, path)
	testConstants(t, path)
}

// TestStrayDebugFile: a debug file of another program is refused, and one that does not belong to
// the program is named as the reason for the missing arguments.
func TestStrayDebugFile(t *testing.T) {
	testenv.NeedsRoot(t)
	const spec = "go:main.work"
	path := build(t, recursion, nil)
	wrong := separate(t, build(t, recursion, nil, "-ldflags=-X main.unused=x"))
	debug := separate(t, path)
	s := launch(t, path)
	run := func(args ...string) string {
		out, _ := exec.Command(stapsdt(t), args...).CombinedOutput()
		return string(out)
	}
	pid := fmt.Sprint(s.PID())
	refused := regexp.MustCompile(`^stapsdt: --debug-file ` + wrong + ` belongs to no program or library there: none has its build ID, [0-9a-f]{40}, or its checksum in \.gnu_debuglink\n$`)
	assert.Regexp(t, refused, run("list", "--debug-file", wrong, path, spec))
	assert.Regexp(t, refused, run("list", "--debug-file", wrong, "-p", pid, spec))
	assert.Regexp(t, refused, run("count", "--debug-file", debug, "--debug-file", wrong, "-p", pid, spec, "-d", "1s"))
	assert.Contains(t, run("list", "--debug-file", debug, "-p", pid, spec), spec+"(n int, explode bool) (ret0 int)  # ")

	binutils(t, "objcopy", "--add-gnu-debuglink="+debug, path, path+".linked")
	require.NoError(t, os.Rename(wrong, filepath.Join(filepath.Dir(path), "program.debug")))
	assert.Contains(t, run("list", "-v", path+".linked", spec), "no arguments: the program has no DWARF: it was linked with -w or -s, or stripped; "+
		filepath.Join(filepath.Dir(path), "program.debug")+" has another build ID\n")

	for _, args := range [][]string{{"--from", "x.rec"}, {"http://localhost/debug/probes/"}} {
		out := run(append([]string{"trace", "--debug-file", debug}, args...)...)
		assert.Contains(t, out, "--debug-file is for the programs of processes, not for recordings and addresses")
	}
	assert.Contains(t, run("trace", "--debug-file", debug, "--via", "socket", "-p", pid, spec), "--via socket excludes it")
}
