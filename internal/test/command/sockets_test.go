//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// user is an ordinary user, of whom the machine need not know.
const user = 4242

// unprivileged returns a command that runs as that user, with bpf and perf_event_open refused.
func unprivileged(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	testenv.NeedsRoot(t)
	makeReadable(t, program)
	launcher := tracetest.Build(t, "../sandbox/unprivileged")
	cmd := exec.Command(launcher, append([]string{strconv.Itoa(user), program}, args...)...)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+userDirectory(t))
	return cmd
}

// userDirectory returns a directory of the user.
func userDirectory(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	makeReadable(t, dir)
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.Chown(dir, user, user))
	return dir
}

// startListening starts the subject as the ordinary user, and lets it listen.
func startListening(t *testing.T) *tracetest.Process {
	t.Helper()
	p := startProcess(t, unprivileged(t, tracetest.Build(t, "subject")))
	tell(p, "listen")
	return p
}

// startByUser starts the command as the user, and waits until it watches the subject.
func startByUser(t *testing.T, p *tracetest.Process, args ...string) *tracer {
	t.Helper()
	tr := &tracer{tracetest.Command(t, unprivileged(t, stapsdt(t), append(args, "-v")...)), t}
	tr.waitForWatches(p, 1)
	return tr
}

// waitForWatches waits until the command has begun to watch the subject for the nth time. The subject's probes are enabled a
// moment before.
func (tr *tracer) waitForWatches(p *tracetest.Process, n int) {
	tr.t.Helper()
	watched := "process " + pid(p) + " is watched by its socket"
	require.Eventually(tr.t, func() bool { return strings.Count(tr.Dump(), watched) == n }, testenv.Patience, time.Millisecond)
}

// runByUser runs the command as the user until it ends by itself.
func runByUser(t *testing.T, args ...string) result {
	t.Helper()
	return runToEnd(t, unprivileged(t, stapsdt(t), args...))
}

// TestSockets: what the command does without any right. TestSources has its verbs.
func TestSockets(t *testing.T) {
	t.Parallel()
	p := startListening(t)
	t.Run("late", func(t *testing.T) {
		tr := startByUser(t, p, "trace", "-o", "json", "-p", pid(p), "subject:tick", "late:*")
		tell(p, "storm 1 1")
		tell(p, "late 2") // by a provider that there was not
		tr.WaitSaid(regexp.MustCompile("the events come from the programs' sockets"), testenv.Patience)
		events := tr.stopUser(p)
		require.Len(t, events, 3)
		require.Equal(t, "late", events[2].Provider)
		require.Equal(t, map[string]any{"n": 1.}, events[2].Args)
	})
	t.Run("kernel", func(t *testing.T) {
		for _, args := range [][]string{
			{"stack", "subject:*"}, {"trace", "subject:*", "--show", "tid"}, {"latency", "subject:request__done", "subject:tick", "--key", "thread"},
		} {
			r := runByUser(t, append(args, "-p", pid(p))...)
			require.Equal(t, 4, r.status)
			require.Regexp(t, "only the kernel can do this|needs the kernel", r.stderr)
			require.NotContains(t, r.stderr, "probesock.Listen", "it listens")
		}
		runByUser(t, "trace", "-p", pid(p), "subject:*", "--via", "kernel").ends(t, 4, "CAP_BPF")
	})
	t.Run("another user", func(t *testing.T) {
		launcher := tracetest.Build(t, "../sandbox/unprivileged")
		for _, via := range [][]string{nil, {"--via", "socket"}} {
			r := runToEnd(t, exec.Command(launcher, append([]string{"4243", stapsdt(t), "trace", "-p", pid(p), "subject:*"}, via...)...))
			require.Equal(t, 4, r.status)
			require.Equal(t, fmt.Sprintf("stapsdt: process %s: its socket admits only its own user and root: it belongs to user %d\n", pid(p), user), r.stderr)
		}
		r := runToEnd(t, exec.Command(launcher, "4243", stapsdt(t), "doctor", "-p", pid(p)))
		require.Contains(t, r.stdout, "root is not needed")
		require.NotRegexp(t, `(?m)^fault.*\n.*sudo`, r.stdout)
	})
	t.Run("wrong", func(t *testing.T) {
		r := runByUser(t, "trace", "-p", pid(p), "subject:*", "-w", "tid == 1", "--via", "socket")
		require.Equal(t, result{status: 2, stderr: "stapsdt: tid needs the kernel, because sockets do not have the thread, but --via socket excludes it\n"}, r)
		runByUser(t, "trace", "-p", pid(p), "subject:request__done", "-w", "stauts > 1").ends(t, 2, "undefined: stauts")
		r = runByUser(t, "trace", "-p", pid(p), "subject:nothing")
		require.Equal(t, 3, r.status)
		other := tracetest.Command(t, exec.Command("cat"))
		r = runByUser(t, "trace", "-p", pid(other), "subject:*", "--via", "socket")
		require.Contains(t, r.stderr, "the process does not listen")
	})
}

// TestSocketFamily: that some of the processes that a process has forked lack a probe says nothing of
// the process itself, which the command has no right to read.
func TestSocketFamily(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	setpriv := testenv.NeedsTool(t, "setpriv", "util-linux")
	const without = "--bounding-set=-all"
	subject := tracetest.Build(t, "subject")
	p := startIn(t, t.TempDir(), exec.Command("bash", "-c", `"$@"; true`, "-", setpriv, without, subject))
	tell(p, "listen")
	trace := func(pid string) result {
		args := []string{without, stapsdt(t), "trace", "-p", pid, "subject:nothing", "-d", "1s"}
		return runToEnd(t, exec.Command(setpriv, args...))
	}
	trace(childOf(t, p)).ends(t, 3, "the process has no subject:nothing")
	trace(pid(p)).ends(t, 4, "needs CAP_")
}

// stopUser interrupts the command, and returns what it traced when the subject is watched no longer.
func (tr *tracer) stopUser(p *tracetest.Process) []event {
	tr.t.Helper()
	events := tr.stop()
	tell(p, "idle")
	return events
}

// TestSocketRoute: root's command takes the socket if it can do all that is asked, and otherwise the kernel, and
// each event is seen once.
func TestSocketRoute(t *testing.T) {
	testenv.NeedsRoot(t)
	p := startGoSubject(t)
	route := func(want string, args ...string) {
		t.Helper()
		runCommand(t, append(args, "-p", pid(p), "-v", "-d", "100ms")...).ends(t, 0, "the events come from the "+want)
	}
	route("kernel", "count", "subject:*")
	tell(p, "listen")
	route("programs' sockets", "count", "subject:*")
	route("programs' sockets", "trace", "subject:request__done")
	route("kernel", "count", "subject:*", "--via", "kernel")
	route("kernel", "count", "subject:request__done", "--by", "tid")
	route("kernel", "count", "subject:request__done", "--by", "uid")
	route("kernel", "trace", "subject:handled") // whose -v shows the fields of a struct
	route("kernel", "latency", "subject:request__done", "subject:tick", "--key", "thread")
	r := runCommand(t, "count", "-a", "subject:*", "-v", "-d", "100ms")
	require.Contains(t, r.stderr, "the events come from the kernel")
	r = runCommand(t, "count", "-p", pid(p), "subject:*", "--via", "ring")
	require.Equal(t, 2, r.status)

	both := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-v", "-o", "json", "-p", pid(p), "subject:request__done", "--via", "socket")), t}
	both.waitForWatches(p, 1)
	kernel := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "subject:request__done", "--via", "kernel")
	tell(p, "fire 10")
	byKernel, bySocket := kernel.stop(), both.stop()
	require.Len(t, byKernel, 10)
	require.Equal(t, args(byKernel, "path"), args(bySocket, "path"))
}

// TestSocketWithoutBPF: where there is no BPF at all, as in gVisor, sockets take its place, and what needs the kernel says so.
func TestSocketWithoutBPF(t *testing.T) {
	p := startListening(t)
	t.Setenv("ERRNO", strconv.Itoa(int(syscall.ENOSYS)))
	runByUser(t, "stack", "-p", pid(p), "subject:*").ends(t, 4, "only the kernel can do this (stack)")
	runByUser(t, "count", "-a", "subject:*", "-d", "100ms", "-v").ends(t, 0, "the events come from the programs' sockets")
	e := newExporter(t, "subject", saidRule, func(args ...string) *exec.Cmd { return unprivileged(t, stapsdt(t), args...) })
	e.waitForMessage(`only the programs of this user that listen are watched`)
}

// TestSocketUnseen: the probes of a C library in a program that listens are seen by the kernel only.
func TestSocketUnseen(t *testing.T) {
	t.Parallel()
	p := startListening(t)
	_, library := startCSubject(t)
	makeReadable(t, library)
	tell(p, "map "+library)
	r := runByUser(t, "list", "-p", pid(p))
	require.Contains(t, r.stdout, library+" (process "+pid(p)+")\n  csubject:other()")
	require.Equal(t, 1, strings.Count(r.stdout, "can be watched without root"))
	for _, one := range lines[listed](t, runByUser(t, "list", "-o", "json", "-p", pid(p)).stdout) {
		require.Equal(t, one.Provider == "subject", len(one.Listening) == 1, one.Probe)
	}
	const says = "csubject:other is not among the probes that the program shows by its socket: only the kernel sees it"
	for _, verb := range []string{"trace", "count"} {
		r := runByUser(t, verb, "-p", pid(p), "csubject:other", "-d", "1s")
		require.Equal(t, result{stderr: "stapsdt: " + says + ": loading BPF programs needs CAP_BPF and CAP_PERFMON\n", status: 4}, r)
	}
	runByUser(t, "count", "-p", pid(p), "csubject:other", "--via", "socket").ends(t, 2, says+", but --via socket excludes it")
	runByUser(t, "count", "-p", pid(p), "csubject:other", "subject:*", "-d", "1ms").ends(t, 0, says)
	runByUser(t, "count", "-p", pid(p), "csubject:wrong", "-d", "1ms").ends(t, 3, "no such probe: the process has no csubject:wrong")
}

// TestSocketHidden: the files of a process that is not dumpable are hidden from its own user, and its socket is not.
func TestSocketHidden(t *testing.T) {
	t.Parallel()
	p, other := startListening(t), startListening(t)
	tell(p, "hide")
	runByUser(t, "list", "-p", pid(other)+","+pid(p)).ends(t, 0, "1 process is not shown completely: ", "CAP_SYS_PTRACE")
	r := runByUser(t, "list", "-p", pid(p))
	require.Equal(t, result{stdout: "process " + pid(p) + ", by its socket\n" +
		"  subject:request__done(path string, status int32, elapsed time.Duration, cached bool)\n" +
		"  subject:handled(req uintptr, n int64)\n  subject:tick(arg0 uint64, arg1 uint8)\n"}, r)
	tell(p, "hush")
	runByUser(t, "list", "-p", pid(p)).ends(t, 4, "CAP_SYS_PTRACE")
}

// TestSocketLeavesNothing: a program that was watched by its socket has no mapping of it left, and none of the kernel's uprobes.
func TestSocketLeavesNothing(t *testing.T) {
	t.Parallel()
	p := startListening(t)
	mapped := func() bool {
		maps, err := os.ReadFile("/proc/" + pid(p) + "/maps")
		require.NoError(t, err)
		return regexp.MustCompile(`/memfd:|uprobes`).Match(maps)
	}
	tr := startByUser(t, p, "count", "-p", pid(p), "subject:tick")
	tell(p, "storm 100 1")
	require.True(t, mapped())
	tr.interrupt()
	require.Contains(t, strings.Join(tr.Lines(), " "), "100  subject:tick")
	require.Eventually(t, func() bool { return !mapped() }, testenv.Patience, time.Millisecond)
}

// TestSocketBusy: a program to which too many processes are connected says so, whatever the order of the messages, and root's
// command takes the kernel.
func TestSocketBusy(t *testing.T) {
	t.Parallel()
	p := startListening(t)
	sockets := tracetest.Must(os.ReadFile("/proc/net/unix"))(t)
	at := regexp.MustCompile(`/\S*/` + pid(p) + `-\d+\.sock`).FindString(string(sockets))
	require.NotEmpty(t, at)
	hello := wire.Append(nil, wire.KindHello, (&wire.Hello{Major: wire.Major}).Append(nil))
	for range 32 {
		c := tracetest.Must(net.Dial("unix", at))(t)
		defer c.Close()
		go func() { // a connection that is silent for long is closed
			for _, err := c.Write(hello); err == nil; _, err = c.Write(wire.Append(nil, wire.KindEnd, nil)) {
				_, _ = io.ReadAtLeast(c, make([]byte, 100), 1)
				time.Sleep(time.Second)
			}
		}()
	}
	for range 5 {
		runByUser(t, "count", "-p", pid(p), "subject:*", "-d", "100ms").ends(t, 1, "process "+pid(p)+": too many processes are connected to it")
	}
	runCommand(t, "count", "-p", pid(p), "subject:*", "-d", "100ms", "-v").ends(t, 0, "the events come from the kernel")
}

// TestSocketWatchers: root's command takes the kernel, too, if a program has as many watchers as it takes.
func TestSocketWatchers(t *testing.T) {
	t.Parallel()
	p := startListening(t)
	full := regexp.MustCompile("process " + pid(p) + ": (8 processes watch it already|it has no memory for another watcher)")
	for range 30 { // of which at most 8 are admitted at a time, with those that only ask whether there is room
		tracetest.Command(t, unprivileged(t, stapsdt(t), "count", "-p", pid(p), "subject:*"))
		r := runByUser(t, "count", "-p", pid(p), "subject:*", "-d", "100ms")
		if r.status == 1 && full.MatchString(r.stderr) {
			break
		}
	}
	r := runCommand(t, "count", "-p", pid(p), "subject:*", "-d", "100ms", "-v")
	require.Zero(t, r.status)
	require.Regexp(t, full, r.stderr)
	require.Contains(t, r.stderr, "the events come from the kernel")
	r = runCommand(t, "count", "-p", pid(p), "subject:*", "-d", "100ms", "--via", "socket")
	require.Equal(t, 1, r.status)
}

// TestSocketAll: -a of an ordinary user covers its programs that listen, also those that begin later.
func TestSocketAll(t *testing.T) {
	first := startListening(t)
	tr := startByUser(t, first, "trace", "-a", "-o", "json", "subject:request__done")
	second := startListening(t)
	tr.waitForWatches(second, 1)
	tell(first, "fire 2")
	tell(second, "fire 3")
	second.Signal(syscall.SIGKILL)
	require.Eventually(t, func() bool { return len(tr.Lines()) >= 5 }, testenv.Patience, time.Millisecond)
	tell(first, "fire 1")
	events := tr.stopUser(first)
	require.Len(t, of(first, append([]event{}, events...)), 3)
	require.Len(t, of(second, append([]event{}, events...)), 3)
	for i := range events[1:] {
		require.False(t, events[i+1].Time.Before(events[i].Time))
	}
}

// TestSocketLife: unloaded and loaded again, closed and opened again, exec, and the end of the program.
func TestSocketLife(t *testing.T) {
	t.Parallel()
	p := startListening(t)
	tr := startByUser(t, p, "trace", "-o", "json", "-p", pid(p), "subject:request__done")
	tell(p, "fire 1")
	tell(p, "unload")
	tell(p, "fire 1")
	tell(p, "load")
	tell(p, "fire 1")
	tell(p, "hush")
	tell(p, "idle")
	tell(p, "fire 1") // which nobody sees
	tell(p, "listen")
	tr.waitForWatches(p, 2)
	tell(p, "fire 2")
	p.Say("exec")
	p.Expect("ready", testenv.Patience)
	tell(p, "listen")
	tr.waitForWatches(p, 3)
	tell(p, "fire 2")
	p.Signal(syscall.SIGKILL)
	events := tr.waitForEnd()
	require.Equal(t, []any{"/item/0", "/item/1", "/item/2", "/item/4", "/item/5", "/item/0", "/item/1"}, args(events, "path"))
}

// TestSocketFarAway: a program is found in a directory whose path is too long for a socket's address.
func TestSocketFarAway(t *testing.T) {
	t.Parallel()
	cmd := unprivileged(t, tracetest.Build(t, "subject"))
	long := filepath.Join(userDirectory(t), strings.Repeat("x", 150))
	cmd.Env = append(cmd.Env, "STAPSDT_DIR=", "XDG_RUNTIME_DIR=", "TMPDIR="+long)
	require.NoError(t, os.Mkdir(long, 0o700))
	require.NoError(t, os.Chown(long, user, user))
	p := startProcess(t, cmd)
	tell(p, "listen")
	tr := startByUser(t, p, "count", "-p", pid(p), "subject:tick", "-o", "json")
	tell(p, "storm 1 1")
	tr.interrupt()
	require.Contains(t, tr.Lines()[0], `"count":1`)
	require.Contains(t, runByUser(t, "list", "-p", pid(p)).stdout, "can be watched without root: process "+pid(p))
	require.Len(t, tracetest.Must(filepath.Glob(fmt.Sprintf("%s/stapsdt-%d/%d-*.sock", long, user, p.PID())))(t), 1)
}

// TestSocketDeleted: a program whose socket was deleted cannot be watched, and this is said.
func TestSocketDeleted(t *testing.T) {
	t.Parallel()
	cmd := unprivileged(t, tracetest.Build(t, "subject"))
	p := startProcess(t, cmd)
	tell(p, "listen")
	sockets := tracetest.Must(filepath.Glob(strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "STAPSDT_DIR=") + "/*.sock"))(t)
	require.Len(t, sockets, 1)
	require.NoError(t, os.Remove(sockets[0]))
	r := runByUser(t, "trace", "-p", pid(p), "subject:*")
	require.Equal(t, 1, r.status)
	require.Equal(t, fmt.Sprintf("stapsdt: process %s: the file of its socket was deleted: %s\n", pid(p), sockets[0]), r.stderr)
	require.Contains(t, runByUser(t, "doctor", "-p", pid(p)).stdout, "call Listen again")
	tell(p, "hush")
	tell(p, "listen")
	require.Contains(t, runByUser(t, "list", "-p", pid(p)).stdout, "can be watched without root")
}

// startContainers starts two subjects of the user that are PID 1 of namespaces of their own, share a directory, and were started in
// the same tick.
func startContainers(t *testing.T, dir string) (both [2]*tracetest.Process) {
	t.Helper()
	for range 1000 {
		var starts [2]string
		for i := range both {
			cmd := exec.Command("sh", "-c", fmt.Sprintf("mount --make-rprivate / && mount -t proc none /proc && exec env STAPSDT_DIR=%s setpriv --reuid %d --clear-groups %s",
				dir, user, tracetest.Build(t, "subject")))
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
			both[i] = tracetest.Command(t, cmd)
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", both[i].PID()))
			require.NoError(t, err)
			starts[i] = strings.Fields(string(stat))[21]
		}
		for _, p := range both {
			p.Expect("ready", testenv.Patience)
		}
		if starts[0] == starts[1] {
			return both
		}
		for _, p := range both {
			p.Signal(syscall.SIGKILL)
			_ = p.Wait(testenv.Patience)
		}
	}
	require.Fail(t, "no two processes were started in the same tick")
	return both
}

// TestSocketNamesakes: the sockets of two programs differ in neither PID nor start time. Each is watched as itself from outside, and
// from inside of its PID namespace, and from a third one both are.
func TestSocketNamesakes(t *testing.T) {
	testenv.NeedsRoot(t)
	makeReadable(t, tracetest.Build(t, "subject"))
	dir := userDirectory(t)
	both := startContainers(t, dir)
	for _, p := range both {
		tell(p, "listen")
	}
	require.Len(t, tracetest.Must(filepath.Glob(dir+"/1-*.sock"))(t), 2)
	tell(both[1], "fire 1000") // whose events are known by their numbers from here on
	trace := func(first, second int, how ...string) {
		t.Helper()
		i := slices.Index(how, "--")
		cmd := unprivileged(t, stapsdt(t), "trace", "subject:request__done", "-o", "json", "-v", "-n", strconv.Itoa(first+second))
		wrapped := exec.Command(how[0], slices.Concat(how[1:i], cmd.Args, how[i+1:])...)
		wrapped.Env = append(os.Environ(), "STAPSDT_DIR="+dir)
		tr := &tracer{tracetest.Command(t, wrapped), t}
		watched := min(first, 1) + min(second, 1) // -a also watches other programs of the user
		require.Eventually(t, func() bool {
			return len(regexp.MustCompile(`process (1|`+pid(both[0])+`|`+pid(both[1])+`)( of another PID namespace)? is watched by its socket`).FindAllString(tr.Dump(), -1)) == watched
		}, testenv.Patience, time.Millisecond)
		tell(both[0], "fire 2")
		tell(both[1], "fire 3")
		for _, path := range args(tr.waitForEnd(), "path") {
			if len(path.(string)) < len("/item/1000") {
				first--
			} else {
				second--
			}
		}
		require.Zero(t, first, how)
		require.Zero(t, second, how)
		for _, p := range both {
			tell(p, "idle")
		}
	}
	for i, p := range both {
		first, second := 2*(1-i), 3*i
		trace(first, second, "env", "--", "-p", pid(p))
		trace(first, second, "nsenter", "--target", pid(p), "--pid", "--mount", "--", "-p", "1")
	}
	trace(2, 3, "env", "--", "-a", "-w", "pid == "+pid(both[0])+" || pid == "+pid(both[1]))
	trace(2, 3, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "-a")
}

// TestSocketOutOfReach: the root of a process in a user namespace of another user cannot be opened, which one sentence says.
func TestSocketOutOfReach(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NeedsNamespaces(t, "user", unix.CLONE_NEWUSER)
	t.Parallel()
	subject := tracetest.Build(t, "subject")
	makeReadable(t, subject)
	dir := userDirectory(t)
	cmd := exec.Command("sh", "-c", fmt.Sprintf(`mount -t tmpfs -o mode=777 none %s && mkdir %[1]s/images && chmod 700 %[1]s/images && chown %d %[1]s/images &&
		exec env STAPSDT_DIR=%[1]s/images setpriv --reuid %[2]d --clear-groups %s`, dir, user, subject))
	all := []syscall.SysProcIDMap{{Size: 65534}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true}
	p := startProcess(t, cmd)
	tell(p, "listen")
	sentence := fmt.Sprintf("stapsdt: process %s: its socket cannot be reached: open /proc/%[1]s/root%s/images: permission denied", pid(p), dir)
	r := runByUser(t, "trace", "-p", pid(p), "subject:*")
	require.Equal(t, 4, r.status)
	require.Equal(t, sentence+"\n", r.stderr)
	tr := &tracer{tracetest.Command(t, unprivileged(t, stapsdt(t), "trace", "-a", "subject:*")), t}
	tr.WaitSaid(regexp.MustCompile("^"+regexp.QuoteMeta(sentence)+"$"), testenv.Patience)
}

// TestSocketExport: an exporter without any right counts what its user's programs fire, keeps counting when the rules
// change, and says what it leaves out.
func TestSocketExport(t *testing.T) {
	p := startListening(t)
	const counted = "metrics:\n  - {name: fired_total, probe: 'PROVIDER:request__done', counter: 1, by: [cached], labels: []}\n"
	e := newExporter(t, "subject", counted+"spans:\n  - {probe: 'PROVIDER:job'}\n", func(args ...string) *exec.Cmd { return unprivileged(t, stapsdt(t), args...) })
	e.waitUntilServing()
	e.waitForMessage(`spans of subject:job are left out`)
	e.waitForValue("stapsdt_watched_processes", 1)
	tell(p, "fire 10")
	e.waitForValue(`fired_total{cached="true"}`, 5)
	e.writeRules(counted + "  - {name: statuses, probe: 'PROVIDER:request__done', gauge: status, labels: []}\n")
	e.waitForMessage(`read .*: 2 metrics`)
	tell(p, "await")
	tell(p, "fire 2")
	e.waitForValue(`fired_total{cached="true"}`, 6)
	require.Contains(t, e.scrape(), "statuses")
	fired := 12
	for success, text := range []string{"metrics: [wrong", counted + "  - {name: more_total, probe: 'PROVIDER:tick', counter: 1, labels: []}\n"} {
		e.writeRules(text)
		require.Eventually(t, func() bool {
			tell(p, "fire 2")
			fired += 2
			return e.scrape()["stapsdt_rules_reload_success"] == float64(success)
		}, testenv.Patience, time.Millisecond)
	}
	e.waitForValue(`fired_total{cached="true"}`, float64(fired/2))
	require.Zero(t, e.scrape()["stapsdt_socket_lost_events_total"])
	p.Signal(syscall.SIGKILL)
	e.waitForValue("stapsdt_watched_processes", 0)
	interrupt(t, e)
}
