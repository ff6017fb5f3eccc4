//go:build linux && (amd64 || arm64)

package target

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/function"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func noDebug(*elf.File) (*debugfile.File, error) { return nil, os.ErrNotExist }

// TestGoidOffset: the table is what the debug information of a program says that this
// toolchain builds, and a program without a known version is an error.
func TestGoidOffset(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nimport _ \"os\"\n\nfunc main() {}\n"), 0o600))
	program := filepath.Join(dir, "program")
	build := func(t *testing.T, version string) (goid uint32) {
		cmd := exec.Command("go", "build", "-o", program, filepath.Join(dir, "main.go"))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOTOOLCHAIN="+version, "GOWORK=off", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		file, err := elf.Open(program)
		require.NoError(t, err)
		defer file.Close()
		goid, err = goidFromDWARF(file)
		require.NoError(t, err)
		require.Equal(t, goid, goidOffsets[function.Release(version)], "the table is wrong about %s", version)
		return goid
	}
	for _, version := range []string{"go1.22.12", "go1.23.12", "go1.24.6", "go1.25.0", "go1.27.4"} {
		t.Run(version, func(t *testing.T) {
			testenv.Long(t, "it builds a program by another version of Go")
			build(t, version)
		})
	}
	want := build(t, runtime.Version())
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	// The same program, built by a version that the table does not have.
	unknown := strings.NewReader(strings.ReplaceAll(string(content), runtime.Version(), strings.Repeat("x", len(runtime.Version()))))
	got, err := goidOffset(unknown, noDebug)
	assert.Equal(t, want, got)
	assert.NoError(t, err)
	_, err = GoidOffset(os.Getpid(), debugfile.New())
	assert.NoError(t, err)
	_, err = GoidOffset(1<<30, debugfile.New())
	assert.ErrorIs(t, err, proc.ErrNoProcess)
	sleep := exec.Command("sleep", "100")
	require.NoError(t, sleep.Start())
	defer func() { _ = sleep.Process.Kill(); _ = sleep.Wait() }()
	_, err = GoidOffset(sleep.Process.Pid, debugfile.New())
	assert.ErrorIs(t, err, ErrNoGoid)
}
