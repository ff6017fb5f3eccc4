//go:build linux && (amd64 || arm64)

// What linkers make of notes and of the symbols of operands.

package command_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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

// TestLaunchStatus: the status of a command is passed on as a shell does, unless the verb fails. Then the
// command is not run.
func TestLaunchStatus(t *testing.T) {
	testenv.NeedsRoot(t)
	ran := filepath.Join(t.TempDir(), "ran")
	for _, c := range []struct {
		status  int
		says    string
		args    []string
		command []string
	}{
		{0, "no process has no:probe yet; waiting for one", []string{"no:probe"}, []string{"true"}},
		{5, "", []string{"no:probe"}, []string{"sh", "-c", "exit 5"}},
		{128 + 9, "", []string{"no:probe"}, []string{"sh", "-c", "kill -9 $$"}},
		{127, `x/none cannot be started: .*no such file`, []string{"no:probe"}, []string{"x/none"}},
		{127, `none-such cannot be started: executable file not found`, []string{"no:probe"}, []string{"none-such"}},
		{126, `/etc/passwd cannot be started: permission denied`, []string{"no:probe"}, []string{"/etc/passwd"}},
		{2, "-p and -a cannot be given", []string{"-a", "no:probe"}, []string{"touch", ran}},
		{2, "no other source of events", []string{"--from", ran, "no:probe"}, []string{"touch", ran}},
		{2, "no other source of events", []string{"http://localhost:1"}, []string{"touch", ran}},
		{2, "followed by a COMMAND", []string{"no:probe"}, nil},
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
}

// TestLaunchedProcess: a command has the standard files, the arguments and the signals of a command that
// a shell starts. It outlives the verb, and gets the signal by which stapsdt is asked to end.
func TestLaunchedProcess(t *testing.T) {
	testenv.NeedsRoot(t)
	const script = `grep -c "^SigIgn:.*[1-9a-f]" /proc/self/status; grep TracerPid /proc/$$/status
cat; echo "$@" 1>&2; trap "echo ended; exit 8" TERM; while :; do sleep 0.05; done`
	c := tracetest.Command(t, exec.Command(stapsdt(t), "count", "-d", "100ms", "no:probe", "--", "sh", "-c", script, "name", "--", "-p", "1"))
	c.Say("line")
	c.Hangup()
	c.WaitSaid(regexp.MustCompile("^-- -p 1$"), testenv.Patience)
	c.WaitSaid(regexp.MustCompile(`^stapsdt: sh, process \d+, goes on; stapsdt ends with it$`), testenv.Patience)
	c.Signal(unix.SIGTERM)
	var ended *exec.ExitError
	require.ErrorAs(t, c.Wait(testenv.Patience), &ended)
	require.Equal(t, 8, ended.ExitCode())
	require.Equal(t, "0\nTracerPid:\t0\nline\nno events\nended", strings.Join(c.Lines(), "\n"))
}
