//go:build linux && (amd64 || arm64)

package cluster

import (
	"os"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// program is what the container of a pod runs. It obeys the lines "fire N", "take N" and "enabled".
type program struct {
	path   string
	args   []string
	mounts []mount // what its image has beside it
	probe  string
}

// programs are those that run in pods, by their languages.
var programs = map[string]func(testing.TB) *program{"Go": goProgram, "C": cProgram}

// goProgram returns a program in Go, whose image has nothing else.
func goProgram(t testing.TB) *program {
	return &program{path: tracetest.Build(t, "worker", "CGO_ENABLED=0"), args: []string{"-obey"}, probe: "worker:asked"}
}

// cProgram returns a program in C, whose image has the libraries of this machine.
func cProgram(t testing.TB) *program {
	t.Helper()
	testenv.NeedsTool(t, "make", "make")
	_, err := os.Stat("/usr/include/libelf.h")
	testenv.Needs(t, "libelf (package libelf-dev)", err)
	here := tracetest.Must(os.Getwd())(t)
	directory := tracetest.BuildShell(t, `library="`+here+`/../../../cstapsdt"
make -s -C "$library" OUT="$PWD/out" "$PWD/out/libstapsdt.a"
cc -std=c11 -O2 -I"$library" -o app "`+here+`/../clibrary/testdata/app.c" out/libstapsdt.a -lelf -ldl -pthread`)
	return &program{path: directory + "/app", mounts: []mount{{From: "/usr", To: "/usr"}}, probe: "capp:event"}
}
