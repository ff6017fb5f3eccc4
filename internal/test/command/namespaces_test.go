//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestTraceForks: what a process forks is traced where tracefs is mounted, and where it is not.
func TestTraceForks(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	const dirs = "/sys/kernel/tracing /sys/kernel/debug"
	for name, script := range map[string]string{
		"tracefs": withTracefs,
		"none":    "for dir in " + dirs + `; do while umount -l "$dir" 2>/dev/null; do :; done; done; ! test -e /sys/kernel/tracing/events`,
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := startCSubject(t)
			cmd := exec.Command(stapsdt(t), "trace", "-o", "json", "-p", pid(p), "csubject:other")
			tr := &tracer{tracetest.Command(t, inNamespaces(t, "--mount", script, cmd)), t}
			tr.until(func() bool { return isTraced(p) })
			p.Say("fork 1")
			child := p.Expect("child ", testenv.Patience)
			p.Expect("ok", testenv.Patience)
			events := tr.stop()
			require.Len(t, events, 1)
			require.Equal(t, child, strconv.Itoa(events[0].PID))
		})
	}
}

// TestTraceForgets: a file that nothing can map again is closed.
func TestTraceForgets(t *testing.T) {
	testenv.Long(t, "it closes a file after half a minute")
	t.Parallel() // it waits
	provider := unique("forgotten")
	p := startExportee(t, provider)
	tr := startTrace(t, p, "trace", "-o", "json", "-a", provider+":said")
	image := lines[listed](t, runCommand(t, "list", "-o", "json", "-p", pid(p)).stdout)[0].File
	holds := func() bool {
		dir := fmt.Sprintf("/proc/%d/fd", tr.PID())
		open := tracetest.Must(os.ReadDir(dir))(t)
		return slices.ContainsFunc(open, func(e os.DirEntry) bool {
			file, _ := os.Readlink(filepath.Join(dir, e.Name())) // some are closed in between
			return strings.HasPrefix(file, image)
		})
	}
	require.True(t, holds())
	p.Hangup()
	require.NoError(t, p.Wait(testenv.Patience))
	_ = os.Remove(image)
	require.Eventually(t, func() bool { return !holds() }, 2*testenv.Patience, time.Second)
	q := startExportee(t, provider)
	require.Eventually(t, func() bool { return isTraced(q) }, testenv.Patience, 5*time.Millisecond)
	tell(q, `say "again"`)
	require.Len(t, of(q, tr.stop()), 1)
}

// childOf returns the PID of the only child of a process.
func childOf(t *testing.T, p *tracetest.Process) string {
	t.Helper()
	return strings.Join(childrenOf(t, pid(p)), " ")
}

// childrenOf returns the PIDs of the children of a process that its first thread has started.
func childrenOf(t *testing.T, pid string) []string {
	t.Helper()
	children := tracetest.Must(os.ReadFile("/proc/" + pid + "/task/" + pid + "/children"))(t)
	return strings.Fields(string(children))
}

// TestListNamespaces: the socket of a process in a container has the process's PID there. list shows it under its PID here, and once;
// and in another container, where it has no PID, by its socket.
func TestListNamespaces(t *testing.T) {
	testenv.NeedsRoot(t)
	dir := t.TempDir()           // that both containers share
	t.Setenv("STAPSDT_DIR", dir) // and where a socket of a process that has no PID here is looked for
	inside := func(program string, args ...string) *exec.Cmd {
		return inNamespaces(t, "--pid --fork --mount-proc --kill-child", "", exec.Command(program, args...))
	}
	p := startProcess(t, inside(tracetest.Build(t, "subject")))
	tell(p, "listen")
	sockets := tracetest.Must(filepath.Glob(filepath.Join(dir, "1-*.sock")))(t)
	require.Len(t, sockets, 1, "its PID in there")
	outside := childOf(t, p)
	number := tracetest.Must(strconv.Atoi(outside))(t)

	r := runCommand(t, "list", "-p", outside)
	require.Contains(t, r.stdout, " (process "+outside+")\n")
	require.Contains(t, r.stdout, "  can be watched without root: process "+outside+"\n")
	require.NotContains(t, r.stdout, "by its socket")
	for _, target := range [][]string{{"-p", outside}, {"-a"}} {
		r := runCommand(t, append([]string{"list", "-o", "json"}, target...)...)
		require.NotContains(t, r.stdout, sockets[0], "%v: it is not shown again, as one of another PID namespace", target)
		found := 0
		for _, one := range lines[listed](t, r.stdout) {
			if slices.Contains(one.PIDs, number) {
				found++
				require.Contains(t, one.Listening, number, target)
			}
		}
		require.Equal(t, 3, found, target)
	}

	r = runToEnd(t, inside(stapsdt(t), "list", "-a"))
	require.Zero(t, r.status)
	require.Contains(t, r.stdout, "process 1 of another PID namespace, by its socket\n")
	require.Contains(t, r.stdout, "  subject:request__done(path string, status int32, elapsed time.Duration, cached bool)\n")
	found := 0
	for _, one := range lines[struct {
		listed
		Socket string
	}](t, runToEnd(t, inside(stapsdt(t), "list", "-a", "-o", "json")).stdout) {
		if one.Socket != sockets[0] { // of a program that has nothing to do with this test
			continue
		}
		found++
		require.Empty(t, one.PIDs)
		require.Empty(t, one.Listening)
	}
	require.NotZero(t, found)
}

// TestTraceNew: a process that starts later and has a probe for which the expressions make
// no sense does not end the tracing.
func TestTraceNew(t *testing.T) {
	p := startGoSubject(t)
	tr := startTrace(t, p, "trace", "-o", "json", "-a", "*subject:[rw]*", "-w", "status == -3")
	q, _ := startCSubject(t)
	message := regexp.MustCompile(`csubject:work in \S+ \(process ` + pid(q) + `\) is not included: undefined: status`)
	require.Eventually(t, func() bool { return message.MatchString(tr.Dump()) }, testenv.Patience, 10*time.Millisecond)
	tell(q, "fire 1")
	tell(p, "fire 1")
	require.Len(t, of(p, tr.stop()), 1)
}

// TestTraceUnfit: a process that has a probe for which the expressions make no sense, such as that of
// another user, refuses nothing to those that fit. If none fits, the error names it.
func TestTraceUnfit(t *testing.T) {
	testenv.NeedsRoot(t)
	q, path := startCSubject(t)
	r := runCommand(t, "trace", "-a", "csubject:work", "-w", "status == -3", "-d", "10s")
	r.ends(t, 2, "stapsdt: csubject:work in "+path+" (process "+pid(q)+"): undefined: status")
	p := startGoSubject(t)
	tr := startTrace(t, p, "trace", "-o", "json", "-a", "*subject:[rw]*", "-w", "status == -3")
	tell(q, "fire 1")
	tell(p, "fire 1")
	require.Len(t, of(p, tr.stop()), 1)
	require.Regexp(t, `stapsdt: \d+ of \d+ probes (has|have) no status and (is|are) left out`, tr.Dump())
}

// scratchCommand is a container FROM scratch: a directory that has a program and nothing else, to be
// run with the words of a command in front of it.
func scratchCommand(t *testing.T, front []string, mounts, program string, args ...string) *exec.Cmd {
	t.Helper()
	root := t.TempDir()
	overwrite(t, program, filepath.Join(root, "program"))
	for name := range strings.SplitSeq(mounts, ",") {
		require.NoError(t, os.Mkdir(filepath.Join(root, name), 0o755))
	}
	enter := `mount --make-rprivate / && mount -t proc proc "$0/proc" && if [ -d "$0/sys" ]; then mount -t sysfs -o ro sysfs "$0/sys"; fi && exec chroot "$0" /program "$@"`
	words := slices.Concat(front, []string{testenv.NeedsTool(t, "unshare", "util-linux"), "--mount", "sh", "-c", enter, root}, args)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // and no $HOME or $TMPDIR
	t.Cleanup(func() {
		names := tracetest.Must(filepath.Glob(root + "/*"))(t)
		for _, name := range names {
			require.Contains(t, []string{"program", "proc", "sys"}, filepath.Base(name), "nothing else came into the container")
		}
	})
	return cmd
}

// TestScratch: the command, in a container with nothing but its binary, traces its neighbor,
// whose container has nothing but its own, and whose probes are therefore in memory.
func TestScratch(t *testing.T) {
	testenv.NeedsRoot(t)
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	nsenter := testenv.NeedsTool(t, "nsenter", "util-linux")
	p := startProcess(t, scratchCommand(t, []string{unshare, "--pid", "--fork", "--kill-child"}, "proc", tracetest.Build(t, "subject")))
	outside := childOf(t, p)
	for name, c := range map[string]struct {
		front []string // the namespace of processes
		pid   string   // of the neighbor in it
	}{
		"host":     {nil, outside},                                                 // as with docker run --pid=host
		"neighbor": {[]string{nsenter, "--pid=/proc/" + outside + "/ns/pid"}, "1"}, // --pid=container:NAME
	} {
		t.Run(name, func(t *testing.T) {
			in := func(args ...string) *exec.Cmd { return scratchCommand(t, c.front, "proc,sys", stapsdt(t), args...) }
			list := runToEnd(t, in("list", "-p", c.pid))
			require.Zero(t, list.status)
			require.Contains(t, list.stdout, "subject:request__done(path string, status int32, elapsed time.Duration, cached bool)")
			for _, words := range [][]string{
				{"trace", "-o", "json", "-n", "3", "-p", c.pid, "subject:request__done"},
				{"trace", "-o", "json", "-n", "3", "-a", "subject:request__done", "-w", "pid == " + c.pid},
			} {
				tr := &tracer{tracetest.Command(t, in(words...)), t}
				tr.until(func() bool { return isPIDTraced(outside) })
				tell(p, "fire 3")
				events := tr.waitForEnd()
				first := events[0].Args["elapsed"].(float64)
				require.Equal(t, []any{first, first + 1e6, first + 2e6}, args(events, "elapsed"))
				require.Equal(t, c.pid, fmt.Sprint(events[0].PID))
			}
		})
	}

	t.Run("no sysfs", func(t *testing.T) {
		r := runToEnd(t, scratchCommand(t, nil, "proc", stapsdt(t), "trace", "-p", outside, "subject:request__done"))
		require.Equal(t, 1, r.status)
		require.Equal(t, "stapsdt: open /sys/devices/system/cpu/possible: no such file or directory; mount sysfs at /sys\n", r.stderr)
	})
}
