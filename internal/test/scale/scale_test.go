//go:build linux && (amd64 || arm64)

// Package scale counts how often each block of the code runs for n probes and for four times as many.
package scale

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

const (
	n     = 300
	times = 4
	// growth is the most that a block may run more often, or run for each of the n probes if it runs less often than
	// once: what is quadratic has 16, and a sort has less than 6.
	growth = 8
)

// counted builds a program that counts how often each block runs, of our packages and of those of the standard library in
// which a loop can be ours.
func counted(t *testing.T, program string) (path string) {
	t.Helper()
	testenv.NotRaced(t, "the programs are built without the detector")
	path = filepath.Join(t.TempDir(), "counted")
	const packages = "-coverpkg=github.com/go-stapsdt/stapsdt/...,slices,strings,bytes"
	cmd := exec.Command("go", "build", "-cover", "-covermode=count", packages, "-o", path, program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// counts runs a command that was built by counted, and returns how often each block has run.
func counts(t *testing.T, cmd *exec.Cmd) map[string]int {
	t.Helper()
	dir := t.TempDir()
	cmd.Env = append(cmd.Environ(), "GOCOVERDIR="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	profile := filepath.Join(dir, "profile")
	out, err = exec.Command("go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile).CombinedOutput()
	require.NoError(t, err, "%s", out)
	f, err := os.Open(profile)
	require.NoError(t, err)
	defer f.Close()
	all := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // FILE:FROM,TO STATEMENTS COUNT
		if len(fields) != 3 {
			continue // the mode
		}
		times, err := strconv.Atoi(fields[2])
		require.NoError(t, err)
		all[fields[0]] = max(all[fields[0]], times)
	}
	require.NotEmpty(t, all)
	return all
}

// requireLinear requires that no block runs more often for 4n probes than what is linear does. A block that waits, or follows
// what the rest of the machine does, may run more often in one run, but not in each of three.
func requireLinear(t *testing.T, of func(n int) *exec.Cmd) {
	t.Helper()
	few := counts(t, of(n))
	var beyond map[string]int
	for range 3 {
		many := counts(t, of(times*n))
		maps.DeleteFunc(many, func(block string, count int) bool { return count <= growth*max(few[block], n) })
		if beyond != nil {
			maps.DeleteFunc(many, func(block string, _ int) bool { return beyond[block] == 0 })
		}
		if beyond = many; len(beyond) == 0 {
			return
		}
	}
	for block, count := range beyond {
		t.Errorf("%s runs %d times for %d probes, and %d for %d", block, few[block], n, count, times*n)
	}
}

func startSubject(t *testing.T, program, shape string, n int, more ...string) *exec.Cmd {
	cmd := exec.Command(program, append([]string{shape, fmt.Sprint(n)}, more...)...)
	cmd.Env = append(os.Environ(), "STAPSDT_SOCKET=1", "STAPSDT_DIR="+filepath.Join(t.TempDir(), "images"))
	return cmd
}

// TestLibrary: defining, naming, loading, observing, recording, firing and unloading many probes takes a number of steps that is
// proportional to theirs.
func TestLibrary(t *testing.T) {
	program := counted(t, "./subject")
	for _, shape := range []string{"named", "late", "sites", "late-sites", "named-once", "providers", "one-provider"} {
		t.Run(shape, func(t *testing.T) {
			requireLinear(t, func(n int) *exec.Cmd { return startSubject(t, program, shape, n) })
		})
	}
}

// TestCommand: so does what the command does with them.
func TestCommand(t *testing.T) {
	testenv.Long(t, "it compiles the command with counters")
	testenv.NeedsRoot(t)
	command, program := counted(t, "../../../cmd/stapsdt"), tracetest.Build(t, "subject")
	file := filepath.Join(t.TempDir(), "recording")
	for _, shape := range []string{"named", "sites"} {
		for _, args := range [][]string{
			{"list", "-o", "text"}, {"count", "--via", "kernel", "scale:*", "-d", "1s"}, {"count", "--via", "socket", "scale:*", "-d", "1s"},
			{"trace", "--via", "kernel", "scale:*", "-d", "1s"}, {"trace", "--via", "socket", "scale:*", "-d", "1s"},
			{"record", "-O", file, "scale:*", "-d", "1s"}, {"trace", "--from", file},
		} {
			t.Run(shape+"/"+strings.Join(args[:3], " "), func(t *testing.T) {
				requireLinear(t, func(n int) *exec.Cmd {
					if args[1] == "--from" {
						return exec.Command(command, args...)
					}
					subject := startSubject(t, program, shape, n, "wait")
					out, err := subject.StdoutPipe()
					require.NoError(t, err)
					stdin, err := subject.StdinPipe()
					require.NoError(t, err)
					require.NoError(t, subject.Start())
					t.Cleanup(func() { stdin.Close(); require.NoError(t, subject.Wait()) })
					require.Equal(t, "ready", testenv.Line(t, subject, bufio.NewReader(out)))
					return exec.Command(command, append(args, "-p", strconv.Itoa(subject.Process.Pid))...)
				})
			})
		}
	}
}
