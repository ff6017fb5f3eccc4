//go:build linux && (amd64 || arm64)

package clibrary

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/languages"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// build builds the C library and the program of testdata, and returns the program's path.
func build(t testing.TB) (program string) {
	t.Helper()
	testenv.NotRaced(t, "it starts a program in C, which the detector does not know")
	library := filepath.Dir(languages.Copy(t))
	source, err := filepath.Abs("testdata/app.c")
	require.NoError(t, err)
	cmd := exec.Command("bash", "-ec", "make -s all && cc -std=c11 -Wall -Wextra -Werror -O2 -pthread -I. -o app "+source+" out/libstapsdt.a -lelf -ldl")
	cmd.Dir = library
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return library + "/app"
}

// command returns a command that starts the program with a variable in its environment.
func command(t testing.TB, program, variable string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir(), variable)
	return cmd
}

// start starts the program, and returns when it is ready, and its probes are enabled.
func start(t testing.TB, program, variable string, args ...string) *tracetest.Process {
	t.Helper()
	p := tracetest.Command(t, command(t, program, variable, args...))
	require.Equal(t, "1", p.Expect("ready ", testenv.Patience))
	return p
}

// stapsdt runs the command, and returns what it prints.
func stapsdt(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command(tracetest.Build(t, "../../../cmd/stapsdt"), args...).Output()
	require.NoError(t, err)
	return string(out)
}
