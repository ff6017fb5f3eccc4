//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

type listed struct {
	File, Provider, Probe string
	Args                  []struct{ Name, Type string }
	Sites                 []struct {
		Offset, Semaphore uint64
		Operands          []string
	}
	Semaphore bool
	PIDs      []int
	Traced    *bool
	Listening []int
	// Recordings are the files to which processes record.
	Recordings []struct {
		PID  int
		File string
		Kept bool
	}
}

// TestListMarks: list shows which processes can be watched without root, and which record.
func TestListMarks(t *testing.T) {
	t.Parallel()
	p := startListening(t)
	file := filepath.Join(userDirectory(t), "flight.rec")
	tell(p, "record "+file)
	kept := file + "-20261126T051447.736571318Z"
	for name, text := range map[string]string{kept: recording.Magic, file + "-20261126T051447.736571319Z": "other", file + "-x": recording.Magic} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		require.NoError(t, os.Chown(name, user, user))
	}
	r := runByUser(t, "list", "-p", pid(p))
	require.Zero(t, r.status)
	require.Contains(t, r.stdout, "  can be watched without root: process "+pid(p)+"\n")
	require.Contains(t, r.stdout, "  recorded in "+file+" by process "+pid(p)+"\n")
	require.Contains(t, r.stdout, "  recorded in "+kept+" by an earlier process; 8 bytes\n")
	all := lines[listed](t, runByUser(t, "list", "-o", "json", "-p", pid(p)).stdout)
	require.NotEmpty(t, all)
	for _, one := range all {
		require.Equal(t, []int{p.PID()}, one.Listening)
		require.Len(t, one.Recordings, 2)
		require.Equal(t, p.PID(), one.Recordings[0].PID)
		require.Equal(t, file, one.Recordings[0].File)
		require.False(t, one.Recordings[0].Kept)
		require.Equal(t, kept, one.Recordings[1].File)
		require.True(t, one.Recordings[1].Kept)
	}
}

// TestListProcess: list shows the probes of a process with the names and types of their
// arguments.
func TestListProcess(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	r := runCommand(t, "list", "-p", pid(p))
	require.Zero(t, r.status)
	require.Empty(t, r.stderr)
	require.Contains(t, r.stdout, " (process "+pid(p)+")\n")
	require.Contains(t, r.stdout, "\n  subject:request__done(path string, status int32, elapsed time.Duration, cached bool)\n")
	require.Contains(t, r.stdout, "\n  subject:tick(arg0 uint64, arg1 uint8)\n")

	all := lines[listed](t, runCommand(t, "list", "-o", "json", "-p", pid(p)).stdout)
	require.Len(t, all, 3)
	require.Equal(t, "handled", all[0].Probe)
	require.Equal(t, "request__done", all[1].Probe)
	require.Equal(t, "elapsed", all[1].Args[2].Name)
	require.Equal(t, "time.Duration", all[1].Args[2].Type)
	require.Equal(t, []int{p.PID()}, all[0].PIDs)
	require.False(t, *all[0].Traced)
	require.FileExists(t, all[0].File)

	// An image that was deleted, or that is in memory, is still there.
	require.NoError(t, os.Remove(all[0].File))
	if os.Geteuid() == 0 {
		require.Contains(t, runCommand(t, "list", "-p", pid(p)).stdout, "(deleted) (process")
		q := startGoSubject(t, "memfd")
		r = runCommand(t, "list", "-p", pid(q))
		require.Contains(t, r.stdout, "/memfd:")
		require.Contains(t, r.stdout, "subject:tick")
	}
	tell(p, "unload")
	r = runCommand(t, "list", "-p", pid(p))
	require.Equal(t, 3, r.status)
	functions := "; process " + pid(p) + " runs a Go program, whose functions can be traced like probes: see stapsdt list -p " + pid(p) + " 'go:main.*'\n"
	require.Equal(t, "stapsdt: no such probe: no file there has SDT probes"+functions, r.stderr)
	runCommand(t, "top", "-p", pid(p)).ends(t, 3, "no file of the process has *:*__start or *:*__end"+functions)
	r = runCommand(t, "list", "-p", pid(startProcess(t, exec.Command("sh", "-c", "echo ready; read line"))))
	require.Equal(t, 3, r.status)
	require.Regexp(t, `^stapsdt: no such probe: no file there has SDT probes(; process \d+ started \S+ ago, and may not have loaded its probes yet)?\n$`, r.stderr)
}

func TestListFile(t *testing.T) {
	p, path := startCSubject(t)
	all := lines[listed](t, runCommand(t, "list", "-o", "json", path).stdout)
	require.Len(t, all, 3)
	require.Equal(t, "other", all[0].Probe)
	require.Empty(t, all[0].Args)
	require.Equal(t, "text", all[1].Probe)
	work := all[2]
	require.True(t, work.Semaphore)
	require.Len(t, work.Sites, 2)
	require.Len(t, work.Args, 5)
	require.Equal(t, "int32", work.Args[0].Type)
	require.Equal(t, "float64", work.Args[4].Type)
	require.Equal(t, []int{p.PID()}, work.PIDs)
	r := runCommand(t, "list", "-v", path)
	require.Contains(t, r.stdout, "csubject:work(")
	require.Contains(t, r.stdout, "  # 2 sites, semaphore\n")
	require.Contains(t, r.stdout, " "+work.Sites[0].Operands[0]+" ")
	// The same file by its name alone.
	t.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH"))
	require.Contains(t, runCommand(t, "list", "csubject").stdout, "csubject:other()")
}

// TestUsage: each wrong command line is one sentence and a status.
func TestUsage(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t) // else tracing is refused first
	p := startOperator(t)
	_, path := startCSubject(t)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("hello"), 0o600))
	for _, c := range []struct {
		args, stderr string
		status       int
	}{
		{"list", "list takes one of -p PID, -a, FILE... and http://HOST/debug/probes/", 2},
		{"list -p nothing-has-this-name", `-p: no such process: none is called "nothing-has-this-name"`, 3},
		{"list -p 1 -a", "-p and -a can be combined for names only", 2},
		{"trace", "no probes: give", 2},
		{"trace a:b", "no processes: give", 2},
		{"trace -p 1 a", `"a" is not [FILE:]PROVIDER:PROBE: for any provider, give '*:a'`, 2},
		{"trace a", `"a" is not [FILE:]PROVIDER:PROBE: for the process of this name, give -p a`, 2},
		{"top -p PID a", `"a" is not [FILE:]PROVIDER:PROBE: for any provider, give '*:a'`, 2},
		{"top -p PID operator:request__done", "operator:request__done names a probe of an operation: give operator:request", 2},
		{"tree -p PID operator:*__start", "operator:*__start names a probe of an operation: give operator:*", 2},
		{"latency -p PID operator:request__start", "operator:request__start names a probe of an operation: give operator:request", 2},
		{"top -p PID --by statu", "stapsdt: undefined: statu; the nearest name is status", 2},
		{"top -p PID --by txt", "undefined: txt; the nearest name is text", 2},
		{"latency -p PID operator:request --by statu", "undefined: statu; the nearest name is status", 2},
		{"latency -p PID operator:request --by pth", "undefined: pth; the nearest name is path", 2},
		{"count -p PID operator:* --by statu -d 1ms", "undefined: statu; the nearest name is status", 2},
		{"trace -p 1 a:[b", `"[b" in "a:[b" is not a valid pattern`, 2},
		{"trace -a --strlen 0 a:b", "--strlen must be between 1 and 4000", 2},
		{"trace -a -d -1s a:b", "the duration -1s is negative", 2},
		{"latency -p PID", "latency takes the probes of the start and of the end", 2},
		{"latency -p PID PROBE PROBE", "the start and the end are the same probe", 2},
		{"latency -p PID PROBE operator:query__end", "no key pairs operator:request__start with operator:query__end: give --key arg0", 2},
		{"latency -p PID PROBE operator:request", "no file of the process has operator:request", 3},
		{"latency -p PID operator:*_start operator:*t --key arg0", "both operator:*_start and operator:*t name it", 2},
		{"latency -p PID PROBE operator:other --key arg0", "no file of the process has operator:other", 3},
		{"latency -p PID operator:request --by size", "neither operator:request__start nor operator:request__end has everything", 2},
		{"latency -p PID operator:request --key path", "operator:request__end in ", 2},
		{"latency -p PID operator:request -w path==error", "neither operator:request__start nor operator:request__end has everything", 2},
		{"latency operator:request --key goroutine", "--key goroutine needs to know the processes", 2},
		{"latency -p PID operator:request --linear 1:2", "is not LOW:HIGH:STEP", 2},
		{"trace /proc/self/exe:a:b", "if it is a program that loads its probes at run time, use -p or -a", 3},
		{"list " + text, text + ": not an ELF file", 1},
		{"list /dev/zero", "/dev/zero: it is not a regular file", 1},
		{"list " + text + "s", text + "s: no such file or directory", 3},
		{"list /proc/self/exe", "no SDT probes", 3},
		{"list -p 2147483647", "process 2147483647: no such process", 3},
		{"top -a -i 0s", "the interval must be positive", 2},
		{"top --from /nonexistent", "no such file", 3},
		{"record -a a:b -O x --size 10", "--size must be between", 2},
		{"record -a a:b -O x --size many", "takes a number of bytes", 2},
		{"record -p PID PROBE -O /nowhere/x", "no such file or directory", 3},
		{"record -p PID PROBE -O DIRECTORY", "the file there is not a recording", 1},
		{"script FILE:csubject:none", "has no csubject:none", 3},
		{"script -p PID a:b", "no such probe: nothing there has a:b", 3},
		{"trace -o chrome -a *:*", "-O", 2},
		{"trace -o chrome -a *:* -O x --show pid", "--show", 2},
		{"trace -a *:* -O x", "-O", 2},
		{"export -c " + text, text + ":1:1: ", 2},
		{"export -c " + text + " --check", text + ":1:1: ", 2},
		{"export -c " + text + "s", "no such file or directory", 3},
		{"doctor", "no process: give -p PID", 2},
		{"doctor -p 1 a:b c:d", "doctor takes one SPEC", 2},
	} {
		line := strings.NewReplacer("PID", pid(p), "PROBE", "operator:request__start", "DIRECTORY", t.TempDir(), "FILE:", path+":").Replace(c.args)
		r := runCommand(t, strings.Fields(line)...)
		require.Equal(t, c.status, r.status, c.args)
		require.Empty(t, r.stdout)
		require.Contains(t, r.stderr, c.stderr)
		require.True(t, strings.HasPrefix(r.stderr, "stapsdt: "), r.stderr)
		require.Equal(t, 1, strings.Count(r.stderr, "\n")-2*strings.Count(r.stderr, "^\n"), r.stderr)
	}
	require.Zero(t, runCommand(t, "help").status)
	require.Contains(t, runCommand(t).stdout, "stapsdt list")
}

// TestListDebuggingInformation: a file that was separated from a program has its notes, and
// nothing to attach to.
func TestListDebuggingInformation(t *testing.T) {
	t.Parallel()
	_, path := startCSubject(t)
	for name, command := range map[string][]string{
		"objcopy":  {testenv.NeedsTool(t, "objcopy", "binutils"), "--only-keep-debug", path, path + ".debug"},
		"eu-strip": {testenv.NeedsTool(t, "eu-strip", "elfutils"), "-f", path + ".debug", "-o", path + ".stripped", path},
	} {
		t.Run(name, func(t *testing.T) {
			runTool(t, exec.Command(command[0], command[1:]...))
			r := runCommand(t, "list", path+".debug")
			require.NotZero(t, r.status)
			require.Empty(t, r.stdout)
			require.Contains(t, r.stderr, "has only debugging information")
			require.Contains(t, runCommand(t, "list", path).stdout, "csubject:work")
		})
	}
}

// TestNearest: every verb names the probe or the argument that resembles one that does not exist, whatever it asks.
func TestNearest(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	p := startGoSubject(t)
	file := filepath.Join(t.TempDir(), "recording")
	tell(p, "record "+file)
	tell(p, "fire 3")
	tell(p, "listen")
	id := pid(p)
	const probe, argument = "; the nearest name is subject:request__done", "; the nearest name is status"
	for _, c := range []struct {
		want   string
		status int
		args   []string
	}{
		{probe, 3, []string{"trace", "-p", id, "subject:request_done"}},
		{probe, 3, []string{"count", "-p", id, "subject:reqest__done"}},
		{probe, 3, []string{"hist", "-p", id, "subjct:request__done", "elapsed"}},
		{probe, 3, []string{"stack", "-p", id, "subject:request_done"}},
		{probe, 3, []string{"record", "-p", id, "subject:request_done", "-O", file + ".other"}},
		{probe, 3, []string{"script", "-p", id, "subject:request_done"}},
		{probe, 3, []string{"count", "--from", file, "subject:request_done"}},
		{probe, 3, []string{"count", "-p", id, "subject:request_done", "--via", "socket"}},
		{probe, 3, []string{"trace", "--from", file, "subject:request_done"}},
		{argument, 2, []string{"trace", "-p", id, "subject:request__done", "-w", "statuss > 3"}},
		{argument, 2, []string{"count", "-p", id, "subject:request__done", "--by", "statuss"}},
		{argument, 2, []string{"count", "--from", file, "subject:request__done", "--by", "statuss"}},
		{"a histogram takes integers, but this is a string", 2, []string{"hist", "-p", id, "subject:request__done", "path", "--via", "kernel"}},
		{"there is no file 99999999; -p 99999999 lists", 2, []string{"list", "99999999"}},
	} {
		runCommand(t, c.args...).ends(t, c.status, c.want)
	}
}

// TestStopped: the command says of a process that is stopped that it fires nothing.
func TestStopped(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	p, _ := startCSubject(t)
	p.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { p.Signal(syscall.SIGCONT) })
	for _, verb := range []string{"trace", "count"} {
		r := runCommand(t, verb, "-p", pid(p), "csubject:other", "-d", "10ms")
		require.Zero(t, r.status)
		require.Equal(t, 1, strings.Count(r.stderr, "process "+pid(p)+" is stopped"), verb)
	}
}
