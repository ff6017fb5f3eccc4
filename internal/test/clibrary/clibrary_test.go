//go:build linux && (amd64 || arm64)

package clibrary

import (
	"os"
	"os/exec"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// source is the directory of the C library.
const source = "../../../cstapsdt"

// build builds the C library in out, and the programs of testdata, of which idle has the library's probe.c as it is without recordings too. It returns
// the directory of all.
func build(t testing.TB) (directory string) {
	t.Helper()
	testenv.NotRaced(t, "it starts a program in C, which the detector does not know")
	testenv.NeedsTool(t, "make", "make")
	_, err := os.Stat("/usr/include/libelf.h")
	testenv.Needs(t, "libelf (package libelf-dev)", err)
	here := tracetest.Must(os.Getwd())(t)
	return tracetest.BuildShell(t, `library="`+here+"/"+source+`" testdata="`+here+`/testdata" libraries="out/libstapsdt.a -lelf -ldl -pthread"
make -s -C "$library" OUT="$PWD/out" all
cc -std=c11 -Wall -Wextra -Werror -O2 -I"$library" -o app "$testdata/app.c" $libraries
flags="-O2 -g -std=c11 -fPIC -fvisibility=hidden -fno-omit-frame-pointer"
cc $flags -DSDT_IN_GO -DprobeFire=plainFire -DprobeFireV=plainFireV -DprobeIsEnabled=plainIsEnabled -DprobeOffset=plainOffset -c -o plain.o "$library/probe.c"
cc $flags -no-pie -I"$library" -o idle "$testdata/idle.c" plain.o $libraries`)
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
	out := tracetest.Must(exec.Command(tracetest.Stapsdt(t), args...).Output())(t)
	return string(out)
}
