//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// silent is a program in C with a probe that it never fires.
const silent = `#include <sys/sdt.h>
#include <stdio.h>
int main(int count, char **args) {
	if (count > 2)
		DTRACE_PROBE1(silent, one, count);
	printf("ready\n");
	fflush(stdout);
	return getchar() == 'x';
}`

// startSilent starts the program.
func startSilent(t *testing.T) (pid int, path string) {
	path = filepath.Join(t.TempDir(), "silent")
	compileText(t, path, silent)
	return startProcess(t, exec.Command(path)).PID(), path
}

// TestNothing: a run that ends before anything was attached to has status 3 and a sentence that says
// so, in each verb and for each way to select processes, whatever ends it.
func TestNothing(t *testing.T) {
	testenv.NeedsRoot(t)
	pid, path := startSilent(t)
	attached, watched := "nothing was ever attached to, because no", "nothing was ever watched, because no process that listens had"
	type row struct {
		says string
		args []string
	}
	rows := []row{
		{attached, []string{"count", "absent:probe", "-p", fmt.Sprint(pid), "--wait"}},
		{attached, []string{"count", "absent:probe", "-a", "-p", "absent*"}},
		{attached, []string{"count", path + ":absent:probe", "--wait"}},
		{attached, []string{"count", path + "-later:absent:probe", "--wait"}},
		{attached, []string{"count", "absent:probe", "--", "sleep", "1"}},
		{attached, []string{"count", "go:main.absent", "--", "sleep", "1"}},
		{attached, []string{"latency", "silent:one", "absent:probe", "--key", "arg0", "-p", fmt.Sprint(pid), "--wait"}},
	}
	recording := filepath.Join(t.TempDir(), "recording")
	for _, verb := range [][]string{
		{"trace"}, {"trace", "-o", "json"}, {"trace", "-o", "csv"}, {"count"}, {"hist", "arg0"}, {"tree"}, {"top", "-n", "1"},
		{"latency", "absent:end", "--key", "arg0"}, {"record", "-O", recording}, {"stack"},
		{"trace", "-o", "chrome", "-O", recording + ".json"},
	} {
		args := slices.Insert(slices.Clone(verb), 1, "absent:probe")
		if verb[0] == "tree" || verb[0] == "top" {
			args[1] = "absent:operation"
		}
		rows = append(rows, row{attached, append(args, "-a", "--via", "kernel")})
		if verb[0] != "stack" && verb[0] != "latency" { // which need the kernel, or the probes at once
			rows = append(rows, row{watched, append(slices.Clone(args), "-a", "--via", "socket")})
		}
	}
	for _, c := range rows {
		if c.args[0] != "top" {
			c.args = slices.Insert(c.args, 1, "-d", "300ms")
		}
		r := runCommand(t, c.args...)
		assert.Equal(t, 3, r.status, "%q", c.args)
		assert.Contains(t, r.stderr, c.says, "%q", c.args)
	}
	// What was attached to, or ends by its own status, is no such run.
	runCommand(t, "count", "-d", "300ms", "silent:one", "-p", fmt.Sprint(pid)).ends(t, 0)
	runCommand(t, "count", "-d", "300ms", path+":silent:one").ends(t, 0)
	runCommand(t, "count", "absent:probe", "--", "sh", "-c", "exit 7").ends(t, 7, attached)
}

// TestPartOfNothing: if only some processes, or some specs, have probes, the others are named.
func TestPartOfNothing(t *testing.T) {
	testenv.NeedsRoot(t)
	pid, path := startSilent(t)
	other := startProcess(t, exec.Command("sh", "-c", "echo ready; read line")).PID()
	for _, c := range []struct {
		says string
		args []string
	}{
		{"", []string{"silent:one", "-p", fmt.Sprint(pid)}},
		{fmt.Sprintf("process %d has none of the selected probes", other), []string{"silent:*", "-p", fmt.Sprint(pid, ",", other)}},
		{fmt.Sprintf("process %d has none of the selected probes", other), []string{path + ":silent:*", "-p", fmt.Sprint(other)}},
		{"no file of the process has silent:two; the nearest name is silent:one", []string{"silent:one", "silent:two", "-p", fmt.Sprint(pid)}},
		{"no process has silent:two yet; waiting for one", []string{"silent:one", "silent:two", "-a"}},
		{"no process has silent:two yet; waiting for one", []string{"silent:one", "silent:two", "--wait", "-p", fmt.Sprint(pid)}},
	} {
		r := runCommand(t, append([]string{"count", "-d", "300ms"}, c.args...)...)
		assert.Equal(t, 0, r.status, "%q", c.args)
		assert.Contains(t, r.stderr, c.says, "%q", c.args)
		if c.says == "" {
			assert.Empty(t, r.stderr)
		}
	}
}

// TestPartOfNothingRecorded: of a recording, of a page and of a socket, the specs that select nothing
// are named, if others select something.
func TestPartOfNothingRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording")
	p := startGoSubject(t, "operator", path)
	tell(p, "requests 1")
	page := startPage(t).URL
	for _, c := range []struct {
		says string
		args []string
	}{
		{"stapsdt: no recording has operator:request__strat or absent:*; the nearest name is operator:request__start\n",
			[]string{"operator:*", "operator:request__strat", "absent:*", "--from", path}},
		{"", []string{"operator:*", "--from", path}},
		{"", []string{"--from", path}},
		{"stapsdt: the program has no watched:lagre; the nearest name is watched:large\n",
			[]string{page, "watched:lagre", "watched:request*", "-d", "100ms"}},
		{"", []string{page, "watched:*", "-d", "100ms"}},
	} {
		r := runCommand(t, append([]string{"count"}, c.args...)...)
		r.ends(t, 0)
		assert.Equal(t, c.says, r.stderr, "%q", c.args)
	}
	runCommand(t, "tree", "--from", path).ends(t, 0)
	assert.Empty(t, runCommand(t, "latency", "operator:request__start", "operator:request__end", "--from", path).stderr)
	listening := startListening(t)
	r := runCommand(t, "count", "-d", "100ms", "--via", "socket", "subject:*", "subject:tock", "-p", pid(listening))
	r.ends(t, 0, "no process that listens has subject:tock; the nearest name is subject:tick\n")
}

// TestDaemon: what a COMMAND has started, and goes on after it, is named.
func TestDaemon(t *testing.T) {
	testenv.NeedsRoot(t)
	_, path := startSilent(t)
	count := func(script string) result {
		t.Helper()
		r := runCommand(t, "count", path+":silent:one", "--", "sh", "-c", script)
		r.ends(t, 0)
		return r
	}
	started := func(r result) (pids []string) {
		for _, pid := range strings.Fields(r.stdout) {
			if _, err := strconv.Atoi(pid); err == nil {
				pids = append(pids, pid)
				t.Cleanup(func() { _ = exec.Command("kill", pid).Run() })
			}
		}
		return pids
	}
	const one = "sleep 60 >/dev/null 2>&1 & echo $!; "
	r := count(one)
	pids := started(r)
	require.Len(t, pids, 1)
	require.Contains(t, r.stderr, "stapsdt: process "+pids[0]+", which the COMMAND has started, still runs but is no longer traced: trace it with -p "+pids[0]+"\n")
	r = count(one + one)
	pids = started(r)
	require.Len(t, pids, 2)
	require.Regexp(t, "stapsdt: processes "+pids[0]+", "+pids[1]+", which the COMMAND has started, still run but are no longer traced: trace them with -p\n", r.stderr)
	require.NotContains(t, count("sleep 0.1 & wait").stderr, "no longer traced")
}

// TestNoRequest: an operation that a recording does not have is no tree, and no success.
func TestNoRequest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "operator.rec")
	p := startGoSubject(t, "operator", file)
	tell(p, "requests 1")
	runCommand(t, "tree", "--from", file).ends(t, 0)
	runCommand(t, "tree", "--from", file, "--request", "absent").ends(t, 3, "no root operation has the ID absent")
}
