//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

const (
	staticPIE = "-ldflags=-linkmode=external -extldflags=-static-pie"
	static    = "-ldflags=-linkmode=external -extldflags=-static"
)

// TestBuilds: every event of programs that are linked in unusual ways is counted, with images
// that are made in Go and by the C library.
func TestBuilds(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Long(t, "it builds a program in many ways")
	testenv.NeedsTool(t, "gcc", "gcc")
	for name, c := range map[string]struct {
		cc    string
		flags []string
	}{
		"PIE":            {"gcc", []string{"-buildmode=pie"}},
		"static PIE":     {"gcc", []string{"-buildmode=pie", staticPIE}},
		"static PIE, Go": {"gcc", []string{"-buildmode=pie", staticPIE, "-tags=stapsdt_nocgo"}},
		"asan":           {"gcc", []string{"-asan"}},
		"musl":           {"musl-gcc", nil},
		"musl, static":   {"musl-gcc", []string{static}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cc == "musl-gcc" {
				testenv.NeedsTool(t, c.cc, "musl-tools")
			}
			program := filepath.Join(t.TempDir(), "subject")
			buildProgram(t, "subject", program, c.cc, c.flags...)
			requireAllCounted(t, exec.Command(program))
		})
	}
	t.Run("plugin", func(t *testing.T) {
		dir := t.TempDir()
		host, plugin := filepath.Join(dir, "host"), filepath.Join(dir, "plugin.so")
		buildProgram(t, "testdata/pluginhost", host, "gcc")
		buildProgram(t, "testdata/plugin", plugin, "gcc", "-buildmode=plugin")
		requireAllCounted(t, exec.Command(host, plugin))
	})
}

// buildProgram builds the main package in a directory with cgo.
func buildProgram(t *testing.T, directory, program, cc string, flags ...string) {
	t.Helper()
	cmd := exec.Command("go", append(append([]string{"build", "-o", program}, flags...), ".")...)
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CC="+cc)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// requireAllCounted requires that the command counts what a program fires.
func requireAllCounted(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir())
	p := tracetest.Command(t, cmd)
	p.Expect("ready", testenv.Patience)
	tr := startTrace(t, p, "count", "-o", "json", "-p", pid(p), "subject:request__done")
	tell(p, "fire 1000")
	rows := tr.stopCounting()
	require.Len(t, rows, 1)
	require.Equal(t, 1000, rows[0].Count)
}
