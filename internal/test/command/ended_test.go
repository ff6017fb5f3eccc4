//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ending is a program that fires for each line, and then ends as the line says: by a status, by a
// signal that it sends to itself, or by one that ends a child. With an argument it handles SIGSYS.
const ending = `#include <sys/sdt.h>
#ifdef NOP
#undef _SDT_NOP
#define _SDT_NOP NOP
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>

static void ignore(int s) { (void)s; }

int main(int count, char **args) {
	char how[16];
	int n;
	(void)args;
	if (count > 1)
		signal(SIGSYS, ignore);
	puts("ready");
	fflush(stdout);
	while (scanf("%15s %d", how, &n) == 2) {
		DTRACE_PROBE1(ending, hit, n);
		if (how[0] == 'e')
			exit(n);
		if (how[0] == 's')
			raise(n);
		if (how[0] == 'c' && fork() == 0)
			raise(n);
		while (wait(NULL) > 0)
			;
		puts("ok");
		fflush(stdout);
	}
	return 0;
}
`

func compileEnding(t *testing.T, flags ...string) (path string) {
	testenv.NeedsRoot(t)
	path = filepath.Join(t.TempDir(), "ending")
	compileText(t, path, ending, append(flags, "-O1")...)
	return path
}

const endsPage = " while it was traced: see docs/nothing-shows.md#the-program-ends-as-soon-as-a-tracer-is-attached"

// needsExits skips the test before Linux 6.15.
func needsExits(t *testing.T) {
	t.Helper()
	testenv.NeedsLinux(t, 6, 15, "a pidfd that tells how its process has ended")
}

// TestEnded: a command says how the process of -p has ended, also what has ended its children.
func TestEnded(t *testing.T) {
	needsExits(t)
	path := compileEnding(t)
	for _, c := range []struct{ line, says string }{
		{"exit 0", "process %v has exited\n"},
		{"exit 3", "process %v has exited with status 3\n"},
		{"signal 9", "process %v was ended by SIGKILL\n"},
		{"signal 5", "process %v was ended by SIGTRAP" + endsPage + "\n"},
		{"signal 31", "process %v was ended by SIGSYS" + endsPage + "\n"},
	} {
		for _, verb := range []string{"count", "trace", "stack"} {
			p := startProcess(t, exec.Command(path))
			tr := startTrace(t, p, verb, "ending:hit", "-p", pid(p))
			p.Say(c.line)
			require.NoError(t, tr.Wait(testenv.Patience))
			says := said(tr.Process)
			assert.Contains(t, says, "stapsdt: "+fmt.Sprintf(c.says, pid(p)), "%s %q", verb, c.line)
			assert.Equal(t, 1, strings.Count(says, "process "+pid(p)), "%s %q: %s", verb, c.line, says)
		}
	}
	p := startProcess(t, exec.Command(path))
	tr := startTrace(t, p, "count", "ending:hit", "-p", pid(p))
	tell(p, "child 5")
	tr.WaitSaid(regexp.MustCompile(`process \d+ was ended by SIGTRAP`+regexp.QuoteMeta(endsPage)), testenv.Patience)
	p.Hangup()
	require.NoError(t, tr.Wait(testenv.Patience))
	require.Contains(t, said(tr.Process), "process "+pid(p)+" has exited\n")
}

// said returns all that a process has printed until now.
func said(p *tracetest.Process) string { return p.Dump() + "\n" }

// TestEndedElsewhere: a crash is reported for a file and for a command, in processes that are there
// and in those that come later, but not that of a process that is not traced.
func TestEndedElsewhere(t *testing.T) {
	path, other := compileEnding(t), compileEnding(t)
	handled := startProcess(t, exec.Command(path, "handle"))
	p := startProcess(t, exec.Command(path))
	tr := startTrace(t, p, "count", "-o", "json", path+":ending:hit")
	crash := func(p *tracetest.Process) {
		t.Helper()
		p.Say("signal 5")
		require.Error(t, p.Wait(testenv.Patience))
	}
	unseen := startProcess(t, exec.Command(other))
	crash(unseen)
	crash(p)
	tr.WaitSaid(regexp.MustCompile("process "+pid(p)+" was ended by SIGTRAP"+regexp.QuoteMeta(endsPage)), testenv.Patience)
	later := startProcess(t, exec.Command(path))
	crash(later)
	tr.WaitSaid(regexp.MustCompile("process "+pid(later)+" was ended by SIGTRAP"), testenv.Patience)
	tell(handled, "signal 31")
	handled.Hangup()
	require.NoError(t, handled.Wait(testenv.Patience))
	rows := tr.stopCounting()
	require.Len(t, rows, 1)
	require.Equal(t, 3, rows[0].Count)
	require.NotContains(t, said(tr.Process), "process "+pid(unseen))
	require.NotContains(t, said(tr.Process), "process "+pid(handled))

	cmd := exec.Command(stapsdt(t), "count", "ending:hit", "--", path)
	cmd.Stdin = strings.NewReader("signal 5\n")
	runToEnd(t, cmd).ends(t, 128+int(unix.SIGTRAP), "was ended by SIGTRAP"+endsPage)

	// A program that moves its code after it was attached to has breakpoints in memory that the
	// kernel does not know.
	moving := compileMover(t, mover)
	tr = &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "count", "-v", moving+":mover:hit")), t}
	tr.WaitSaid(regexp.MustCompile("Ctrl-C ends$"), testenv.Patience)
	moved := startProcess(t, exec.Command(moving, "move"))
	moved.Say("fire")
	require.Error(t, moved.Wait(testenv.Patience))
	tr.WaitSaid(regexp.MustCompile("process "+pid(moved)+" was ended by SIGTRAP"), testenv.Patience)
	tr.interrupt()
}

// TestEndedBySocket: without breakpoints, a signal is only named.
func TestEndedBySocket(t *testing.T) {
	needsExits(t)
	p := startListening(t)
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "count", "-v", "--via", "socket", "subject:*", "-p", pid(p))), t}
	tr.WaitSaid(regexp.MustCompile("is watched by its socket"), testenv.Patience)
	p.Signal(os.Kill)
	require.NoError(t, tr.Wait(testenv.Patience))
	require.Contains(t, said(tr.Process), "process "+pid(p)+" was ended by SIGKILL\n")
}

// TestHandlesSIGSYS: -v says that a program may miss events because it handles the signal of system
// calls that it makes itself.
func TestHandlesSIGSYS(t *testing.T) {
	var code []string
	for _, b := range []byte(site.Chosen().Code) {
		code = append(code, fmt.Sprintf(".byte %#x", b))
	}
	long := compileEnding(t, "-DNOP="+strings.Join(code, ";"))
	calls := len(code) > 1
	for _, c := range []struct {
		path  string
		args  []string
		notes bool
	}{
		{long, []string{"handle"}, calls},
		{long, nil, false},
		{compileEnding(t), []string{"handle"}, false},
	} {
		p := startProcess(t, exec.Command(c.path, c.args...))
		r := runCommand(t, "count", "-v", "-d", "100ms", "-p", pid(p), "ending:hit")
		r.ends(t, 0)
		says := fmt.Sprintf("process %s handles SIGSYS, and its sites of %d bytes become system calls", pid(p), len(code))
		require.Equal(t, c.notes, strings.Contains(r.stderr, says), r.stderr)
	}
}
