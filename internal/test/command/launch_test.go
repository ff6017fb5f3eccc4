//go:build linux && (amd64 || arm64)

// What linkers make of notes and of the symbols of operands.

package command_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// launched is a program in C that fires a probe of its own, and then one of a library that it loads, as
// often as its argument says.
const launched = `#include <sys/sdt.h>
#include <dlfcn.h>
#include <stdlib.h>
int main(int count, char **args) {
	int n = atoi(args[1]);
	for (int i = 0; i < n; i++)
		DTRACE_PROBE1(launched, own, i);
	void (*fire)(int) = (void (*)(int))dlsym(dlopen(%q, RTLD_NOW), "fire");
	for (int i = 0; i < n; i++)
		fire(i);
	return 7;
}`

// TestLaunch: each event of a command that stapsdt starts is seen, from the first on, of its program and
// of a library that it loads, if the library is named.
func TestLaunch(t *testing.T) {
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	library, program := filepath.Join(dir, "library.so"), filepath.Join(dir, "program")
	compileText(t, library, `#include <sys/sdt.h>
void fire(int n) { DTRACE_PROBE1(launched, later, n); }`, "-shared", "-fPIC")
	compileText(t, program, fmt.Sprintf(launched, library), "-ldl")
	for range 20 {
		r := runCommand(t, "count", "-o", "json", "launched:own", library+":launched:later", "--", program, "1000")
		require.Equal(t, 7, r.status, r.stderr)
		counts := map[string]int{}
		for _, row := range lines[struct {
			Probe string
			Count int
		}](t, r.stdout) {
			counts[row.Probe] = row.Count
		}
		require.Equal(t, map[string]int{"own": 1000, "later": 1000}, counts, r.stderr)
	}
}

// talkative is a program that fires a probe, and prints a line after every tenth.
const talkative = `#include <sys/sdt.h>
#include <stdio.h>
int main(void) {
	setlinebuf(stdout);
	for (int i = 0; i < 20000; i++) {
		DTRACE_PROBE1(talkative, said, i);
		if (i % 10 == 0)
			printf("[%d]\n", i);
	}
}`

// TestLaunchOutput: the lines of a command and those of stapsdt are whole, although both wait for room in the same pipe.
func TestLaunchOutput(t *testing.T) {
	testenv.NeedsRoot(t)
	program := filepath.Join(t.TempDir(), "program")
	compileText(t, program, talkative)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	c := exec.Command(stapsdt(t), "trace", "-o", "json", "talkative:said", "--", program)
	c.Stdout, c.Stderr = w, os.Stderr
	require.NoError(t, c.Start())
	full := []unix.PollFd{{Fd: int32(w.Fd()), Events: unix.POLLOUT}}
	require.Eventually(t, func() bool {
		n, err := unix.Poll(full, 0)
		return n == 0 && err == nil
	}, testenv.Patience, time.Millisecond)
	w.Close()
	events, said := 0, 0
	for lines := bufio.NewScanner(r); lines.Scan(); {
		require.True(t, json.Valid(lines.Bytes()), "%s", lines.Text())
		if lines.Bytes()[0] == '[' {
			said++
		} else {
			events++
		}
	}
	require.NoError(t, c.Wait())
	require.Positive(t, events)
	require.Equal(t, 2000, said)
}

// TestLaunchTimeline: a timeline gets whole into a pipe that could have lines of the command between its own, although what
// is written at a time ends within a line.
func TestLaunchTimeline(t *testing.T) {
	testenv.NeedsRoot(t)
	program := filepath.Join(t.TempDir(), "program")
	compileText(t, program, talkative)
	r := runCommand(t, "trace", "-o", "chrome", "-O", "-", program+":talkative:said", "--", "sh", "-c", "exec "+program+" >/dev/null")
	require.Zero(t, r.status, r.stderr)
	var file traceFile
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &file))
	events := 0
	for _, e := range file.TraceEvents {
		if e.Ph == "i" {
			events++
		}
	}
	require.Positive(t, events)
	require.Equal(t, 20000, events+file.OtherData.LostEvents)
}

// TestLaunchStatus: the status of a command is passed on as a shell does, unless the verb fails. Then the
// command is not run.
func TestLaunchStatus(t *testing.T) {
	testenv.NeedsRoot(t)
	ran, script := filepath.Join(t.TempDir(), "ran"), filepath.Join(t.TempDir(), "script") // which has no #!
	require.NoError(t, os.WriteFile(script, []byte("exit $1\n"), 0o700))
	damaged := filepath.Join(t.TempDir(), "damaged")
	require.NoError(t, os.WriteFile(damaged, []byte("\x7fELF\x00\n"), 0o700))
	for _, c := range []struct {
		status  int
		says    string
		args    []string
		command []string
	}{
		{3, "nothing was ever attached to, because no process had no:probe", []string{"no:probe"}, []string{"true"}},
		{5, "", []string{"no:probe"}, []string{"sh", "-c", "exit 5"}},
		{128 + 9, "", []string{"no:probe"}, []string{"sh", "-c", "kill -9 $$"}},
		{127, `x/none cannot be started: .*no such file`, []string{"no:probe"}, []string{"x/none"}},
		{127, `none-such cannot be started: executable file not found`, []string{"no:probe"}, []string{"none-such"}},
		{126, `/etc/passwd cannot be started: permission denied`, []string{"no:probe"}, []string{"/etc/passwd"}},
		{6, "", []string{"no:probe"}, []string{script, "6"}},
		{126, "damaged cannot be started: exec format error", []string{"no:probe"}, []string{damaged}},
		{2, "a COMMAND after -- is the process: leave out -p and -a", []string{"-a", "no:probe"}, []string{"touch", ran}},
		{2, "a COMMAND after -- is the source of events: leave out", []string{"--from", ran, "no:probe"}, []string{"touch", ran}},
		{2, "a COMMAND after -- is the source of events: leave out", []string{"http://localhost:1"}, []string{"touch", ran}},
		{2, "no command after --: give COMMAND", []string{"no:probe"}, nil},
		{2, "--via socket excludes it", []string{"--via", "socket", "no:probe"}, []string{"touch", ran}},
		{2, "is not \\[FILE:\\]PROVIDER:PROBE", []string{"noprobe"}, []string{"touch", ran}},
		{3, "no such file", []string{"./none:no:probe", "--via", "kernel"}, []string{"touch", ran}},
	} {
		r := runCommand(t, append(append(append([]string{"count"}, c.args...), "--"), c.command...)...)
		assert.Equal(t, c.status, r.status, "%v: %s", c, r.stderr)
		assert.Regexp(t, c.says, r.stderr, c)
	}
	assert.NoFileExists(t, ran)
	r := runCommand(t, "top", "--", "true")
	assert.Equal(t, 2, r.status, r.stderr)
	assert.Contains(t, r.stderr, "top needs the terminal")

	// What a tracer follows cannot be held by ptrace.
	strace := testenv.NeedsTool(t, "strace", "strace")
	out, err := exec.Command(strace, "-f", "-o", os.DevNull, stapsdt(t), "count", "no:probe", "--", "touch", ran).CombinedOutput()
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended)
	assert.Equal(t, 126, ended.ExitCode())
	assert.Contains(t, string(out), "touch cannot be started: operation not permitted: perhaps ptrace is forbidden")
	assert.NoFileExists(t, ran)
}

// TestLaunchSignals: a command inherits what is ignored, as after nohup, and Ctrl-\ is for the command alone, whose end does not
// lose the results.
func TestLaunchSignals(t *testing.T) {
	testenv.NeedsRoot(t)
	_, path := startSilent(t)
	ignoring := `trap "" HUP INT; exec "$0" count "$1:silent:one" -- sh -c 'kill -HUP $$; kill -INT $$; kill -HUP $PPID; kill -INT $PPID; echo survived'`
	c := tracetest.Command(t, exec.Command("sh", "-c", ignoring, stapsdt(t), path))
	c.WaitSaid(regexp.MustCompile("^survived$"), testenv.Patience)
	require.NoError(t, c.Wait(testenv.Patience), c.Dump())

	c = tracetest.Command(t, exec.Command(stapsdt(t), "count", path+":silent:one", "--", "sh", "-c", `kill -QUIT $PPID; echo went on`))
	require.NoError(t, c.Wait(testenv.Patience), c.Dump())
	require.Equal(t, []string{"no events", "went on"}, slices.Sorted(slices.Values(c.Lines())))
}

// TestLaunchedProcess: a command has the standard files, the arguments and the signals of a command that
// a shell starts. It outlives the verb, and gets the signal by which stapsdt is asked to end.
func TestLaunchedProcess(t *testing.T) {
	testenv.NeedsRoot(t)
	const script = `grep -c "^SigIgn:.*[1-9a-f]" /proc/self/status; grep TracerPid /proc/$$/status
cat; trap "echo ended; exit 8" TERM; echo "$@" 1>&2; while :; do sleep 0.05; done`
	c := tracetest.Command(t, exec.Command(stapsdt(t), "count", "-d", "100ms", "no:probe", "--", "sh", "-c", script, "name", "--", "-p", "1"))
	c.Say("line")
	c.Hangup()
	c.WaitSaid(regexp.MustCompile("^-- -p 1$"), testenv.Patience)
	c.WaitSaid(regexp.MustCompile(`^stapsdt: waiting for sh \(process \d+\) to end$`), testenv.Patience)
	c.Signal(unix.SIGTERM)
	var ended *exec.ExitError
	require.ErrorAs(t, c.Wait(testenv.Patience), &ended)
	require.Equal(t, 8, ended.ExitCode())
	isVerbs := func(line string) bool { return line == "no events" } // before or after those of the command
	said := c.Lines()
	require.True(t, slices.ContainsFunc(said, isVerbs))
	require.Equal(t, "0\nTracerPid:\t0\nline\nended", strings.Join(slices.DeleteFunc(said, isVerbs), "\n"))
}

// TestBackgroundJob: SIGINT ends a job of a script, in which the shell has it ignored.
func TestBackgroundJob(t *testing.T) {
	testenv.NeedsRoot(t)
	_, path := startSilent(t)
	c := tracetest.Command(t, exec.Command("sh", "-c", `trap "" INT; exec "$@"`, "sh", stapsdt(t), "count", "-v", path+":silent:one"))
	c.WaitSaid(regexp.MustCompile("Ctrl-C ends$"), testenv.Patience)
	interrupt(t, c)
	require.Equal(t, []string{"no events"}, c.Lines())
}
