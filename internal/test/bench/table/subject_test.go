//go:build linux

package table

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// The subjects' names: the two builds of the Go program, and the C program by its
// nop.
const (
	pureGo  = "go"
	withCgo = "cgo"
)

// cSubject returns the name of the C program whose sites are of that kind.
func cSubject(kind string) string { return "c-" + kind }

// chosen is the C program whose sites are those that this kernel gets.
func chosen() string { return cSubject(site.Chosen().Name) }

// siteKinds are the kinds of site that are measured in C: those that any kernel
// attaches to, and the one that this kernel gets.
func siteKinds() []string {
	kinds := []string{site.Chosen().Name}
	if runtime.GOARCH == "amd64" {
		kinds = append(kinds, "nop1", "nop5")
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// subjects are the programs that are measured. Each does what a line "ROW N" says, and answers with a number.
type subjects map[string]*tracetest.Process

func startSubjects(t *testing.T) subjects {
	all := subjects{}
	for _, name := range []string{pureGo, withCgo} {
		all.start(t, name, exec.Command(filepath.Join(*work, "subject-"+name)))
	}
	for _, kind := range siteKinds() {
		all.start(t, cSubject(kind), exec.Command(copyProgram(t, "csubject", kind)), "STAPSDT_SITE="+kind)
	}
	return all
}

// copyProgram copies a program: uprobes belong to files, and a tracer of one must not slow down the others.
func copyProgram(t *testing.T, program, name string) (path string) {
	content, err := os.ReadFile(filepath.Join(*work, program))
	require.NoError(t, err)
	path = filepath.Join(*work, program+"-"+name)
	require.NoError(t, os.WriteFile(path, content, 0o700))
	return path
}

// start runs a program, with a directory of its own for its images, and waits until its probes are loaded.
func (all subjects) start(t *testing.T, name string, cmd *exec.Cmd, env ...string) {
	cmd.Env = append(os.Environ(), append(env, "STAPSDT_DIR="+filepath.Join(*images, name), "STAPSDT_BENCH_COMMAND="+filepath.Join(*work, "stapsdt"))...)
	all[name] = tracetest.Command(t, cmd)
	all[name].Expect("ready", testenv.Patience)
}

// ask has a program do a row's operation, and returns its answer.
func (all subjects) ask(t *testing.T, name, row string, n int) (answer float64) {
	all[name].Say(fmt.Sprint(row, " ", n))
	_, err := fmt.Sscan(all[name].Expect("took ", testenv.Patience), &answer)
	require.NoError(t, err)
	return answer
}

// end has a program end, by the end of its input.
func (all subjects) end(t *testing.T, name string) {
	all[name].Hangup()
	require.NoError(t, all[name].Wait(testenv.Patience))
	delete(all, name)
}
