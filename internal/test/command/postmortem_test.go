//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// crash starts an operator that records, and that has served five requests, of which the last has failed.
func crash(t *testing.T) (p *tracetest.Process, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "operator.rec")
	p = startOperator(t, file)
	tell(p, "requests 5")
	return p, file
}

// endsBadly requires that a program ends by what it was told.
func endsBadly(t *testing.T, p *tracetest.Process) {
	t.Helper()
	require.Error(t, p.Wait(testenv.Patience))
}

// requireEnded requires what the screen shows of every operator that has ended after crash.
func requireEnded(t *testing.T, screen string, open ...string) {
	t.Helper()
	require.Contains(t, screen, "\nnot closed: the process was killed, crashed, or ended without Close\n")
	requireLoad(t, screen, open...)
}

// requireLoad requires what the screen shows of the requests that have ended, and of those that are open.
func requireLoad(t *testing.T, screen string, open ...string) {
	t.Helper()
	require.LessOrEqual(t, strings.Count(screen, "\n"), 40)
	head := regexp.MustCompile(`(?m)^OPEN FOR  GOROUTINE  (\d+) OPEN `).FindStringSubmatch(screen)
	require.NotNil(t, head, screen)
	require.Equal(t, strconv.Itoa(len(open)), head[1])
	for _, line := range open {
		require.Regexp(t, `(?m)^ *[0-9.]+(ns|µs|ms|s) +\d+ +`+line+`$`, screen)
	}
	require.Regexp(t, `(?m)^ERROR AT +\d FAILED +ARGUMENTS$`, screen)
	require.Regexp(t, `(?m)^\S+  operator:request \d+ +error="no such table" path="/0" status=500$`, screen)
	require.Regexp(t, `(?m)^\S+  operator:query \d+ +error="no such table" text="SELECT 2"$`, screen)
}

// counts returns how many operations of a name have ended, and how many have failed, by the object.
func counts(t *testing.T, file, name string) (count, errors int) {
	t.Helper()
	type part struct{ Count, Errors int }
	type row struct {
		Name         string
		Last, Before part
	}
	type report struct {
		Rates struct{ Rows []row }
	}
	for _, r := range lines[report](t, runCommand(t, "postmortem", file, "-o", "json").stdout)[0].Rates.Rows {
		if r.Name == name {
			return r.Last.Count + r.Before.Count, r.Last.Errors + r.Before.Errors
		}
	}
	return 0, 0
}

// TestPostmortemKilled: a program that SIGKILL has ended, found by its file, its directory and its PID.
func TestPostmortemKilled(t *testing.T) {
	t.Parallel()
	p, file := crash(t)
	tell(p, "hang 1")
	tell(p, "open 2")
	r := runCommand(t, "postmortem", pid(p))
	r.ends(t, 0)
	require.Contains(t, r.stdout, file+": process "+pid(p)+", ")
	require.Contains(t, r.stdout, "\nalive")
	p.Signal(syscall.SIGKILL)
	endsBadly(t, p)
	open := []string{`operator:request \d+ +path="/hang/0"`, `operator:request \d+ +path="/open/0"`, `operator:request \d+ +path="/open/1"`}
	placed := filepath.Join("/dev/shm", filepath.Base(t.TempDir())+"-"+pid(p)) // where it is looked for
	require.NoError(t, os.Mkdir(placed, 0o700))
	t.Cleanup(func() { os.RemoveAll(placed) })
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(placed, "operator.rec"), content, 0o600))
	require.NoError(t, os.Remove(file))
	file = filepath.Join(placed, "operator.rec")
	for _, of := range []string{file, filepath.Dir(file) + "/", pid(p)} {
		r = runCommand(t, "postmortem", of)
		r.ends(t, 0)
		requireEnded(t, r.stdout, open...)
		require.Regexp(t, `(?m)^ +TIME +OWN  PART  OPERATION
 +>\S+ +\S+  100%  operator:request path="/hang/0"  not ended yet
 +\S+ +\S+ +\d+%    operator:query text="SELECT 3" error="panic"  FAILED
`, r.stdout, "only this one has parts")
		require.Contains(t, r.stdout, "\nstapsdt tree --from "+file+" --errors\n")
	}
	count, errors := counts(t, file, "operator:query")
	require.Equal(t, []int{11, 2}, []int{count, errors}, "two of each request, and the one of the open one")
	count, errors = counts(t, file, "operator:request")
	require.Equal(t, []int{5, 1}, []int{count, errors})
	require.Equal(t, 3, runCommand(t, "postmortem", filepath.Join(t.TempDir(), "none.rec")).status)
	runCommand(t, "postmortem", "no-such-program-"+pid(p)).ends(t, 3, "there is no recording of no-such-program-", "start the program with STAPSDT_RECORD=/dev/shm/no-such-program-")
}

// TestPostmortemPanic: a program that a panic has ended.
func TestPostmortemPanic(t *testing.T) {
	t.Parallel()
	p, file := crash(t)
	p.Say("panic")
	endsBadly(t, p)
	require.Contains(t, p.Dump(), "panic: boom")
	r := runCommand(t, "postmortem", file)
	r.ends(t, 0)
	requireEnded(t, r.stdout, `operator:request \d+ +path="/panic"`)
	require.Regexp(t, `(?m)^LAST EVENTS .*\n.*  operator:request__start +.* path="/panic"\n.*  operator:query__start .* text="SELECT 4"\n.*  operator:query__end .* error=""$`, r.stdout)
}

// TestPostmortemDeadlock: a program that is alive, and in which nothing happens any longer.
func TestPostmortemDeadlock(t *testing.T) {
	t.Parallel()
	p, file := crash(t)
	tell(p, "hang 1")
	tell(p, "open 1")
	var screen string
	silent := regexp.MustCompile(`(?m)^alive: no events for ([0-9.]+s)$`)
	require.Eventually(t, func() bool {
		screen = runCommand(t, "postmortem", file).stdout
		said := silent.FindStringSubmatch(screen)
		return said != nil
	}, testenv.Patience, 100*time.Millisecond)
	quiet, err := time.ParseDuration(silent.FindStringSubmatch(screen)[1])
	require.NoError(t, err)
	requireLoad(t, screen, `operator:request \d+ +path="/hang/0"`, `operator:request \d+ +path="/open/0"`)
	open := regexp.MustCompile(`(?m)^ *([0-9.]+s) .* path="/open/0"$`).FindStringSubmatch(screen)
	require.NotNil(t, open, "open until now, not until the last event")
	has, err := time.ParseDuration(open[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, has, quiet)
	require.NotContains(t, screen, "not closed")
	p.Signal(syscall.SIGKILL)
	endsBadly(t, p)
}

// memoryGroup makes a control group with 64 MB of memory.
func memoryGroup(t *testing.T) string {
	t.Helper()
	testenv.NeedsRoot(t)
	groups, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	path, limit := "", "memory.max"
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if parts[1] == "memory" {
			path, limit = "/sys/fs/cgroup/memory"+parts[2], "memory.limit_in_bytes"
		} else if parts[0] == "0" && path == "" {
			path = testenv.NeedsGroups(t)
		}
	}
	path = filepath.Join(path, fmt.Sprintf("stapsdt-hog-%d", os.Getpid()))
	err = os.Mkdir(path, 0o755)
	testenv.NeedsMachine(t, "control groups that can be made", err, unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOENT)
	t.Cleanup(func() { // when the process has left it
		require.Eventually(t, func() bool { return os.Remove(path) == nil }, testenv.Patience, time.Millisecond)
	})
	err = os.WriteFile(filepath.Join(path, limit), []byte("64M"), 0)
	testenv.NeedsMachine(t, "control groups with memory", err, unix.ENOENT, unix.EACCES)
	if limit == "memory.max" {
		_ = os.WriteFile(filepath.Join(path, "memory.swap.max"), []byte("0"), 0)
	}
	return path
}

// TestPostmortemMemory: a program that the OOM killer has ended.
func TestPostmortemMemory(t *testing.T) {
	t.Parallel()
	group := memoryGroup(t)
	p, file := crash(t)
	require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(pid(p)), 0))
	p.Say("hog")
	endsBadly(t, p)
	r := runCommand(t, "postmortem", file)
	r.ends(t, 0)
	requireEnded(t, r.stdout, `operator:request \d+ +path="/hog"`)
	require.Regexp(t, `(?m)^kernel: the OOM killer killed the process at `, r.stdout)
}
