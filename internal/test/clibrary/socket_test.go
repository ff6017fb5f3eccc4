//go:build linux && (amd64 || arm64)

package clibrary

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/stretchr/testify/require"
)

// TestSocket: a program with the C library speaks the protocol of package wire.
func TestSocket(t *testing.T) {
	program := build(t) + "/app"
	for name, test := range map[string]func(t *testing.T, program string){
		"watch": testWatch, "frozen watchers": testFrozenWatcher, "limits": testLimits, "hostile": testHostile,
		"children": testSocketChildren, "closed descriptors": testClosedDescriptors,
		"stop": testStopListening, "left": testLeft, "exec": testExec, "dlclose": testDlclose, "command": testCommand, "other users": testOtherUsers,
	} {
		t.Run(name, func(t *testing.T) { test(t, program) })
	}
}

// listener is a program that listens.
type listener struct {
	*tracetest.Process
	dir string
}

func listen(t *testing.T, program string, args ...string) *listener {
	t.Helper()
	cmd := command(t, program, "STAPSDT_SOCKET=1", args...)
	l := &listener{tracetest.Command(t, cmd), strings.TrimPrefix(cmd.Env[len(cmd.Env)-2], "STAPSDT_DIR=")}
	require.Equal(t, "0", l.Expect("ready ", testenv.Patience))
	return l
}

// sockets returns the paths of the sockets in the program's directory.
func (l *listener) sockets(t *testing.T) []string {
	found := tracetest.Must(filepath.Glob(l.dir + "/*.sock"))(t)
	return found
}

// dial connects to the socket.
func (l *listener) dial(t *testing.T) *net.UnixConn {
	t.Helper()
	require.Len(t, l.sockets(t), 1)
	dir := tracetest.Must(os.Open(l.dir))(t) // the path may be too long for an address
	defer dir.Close()
	c := tracetest.Must(net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(l.sockets(t)[0]))))(t)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(testenv.Patience)))
	return c.(*net.UnixConn)
}

func (l *listener) client(t *testing.T) *wire.Client {
	t.Helper()
	c := tracetest.Must(wire.NewClient(l.dial(t), testenv.Patience))(t)
	return c
}

// all asks for the events of all probes.
func all(bytes uint64) wire.Watch {
	return wire.Watch{Bytes: bytes, Patterns: []wire.Pattern{{Provider: "*", Probe: "*"}}}
}

// watch begins a watch, and returns the reader of its memory.
func watch(t *testing.T, c *wire.Client, w wire.Watch) *recording.Reader {
	t.Helper()
	memory := tracetest.Must(c.Watch(w))(t)
	t.Cleanup(func() { memory.Close() })
	r := tracetest.Must(recording.NewReader(memory))(t)
	return r
}

// fire has the program fire events.
func (l *listener) fire(n int) {
	l.Say(fmt.Sprint("fire ", n))
	l.Expect("done", testenv.Patience)
}

// count returns how many events a reader sees.
func count(t *testing.T, r *recording.Reader) (n uint64) {
	_, err := r.More()
	require.NoError(t, err)
	for ; ; n++ {
		if _, err := r.Next(); err != nil {
			return n
		}
	}
}

func (l *listener) requireEnabled(t *testing.T, want string) {
	t.Helper()
	require.Eventually(t, func() bool {
		l.Say("enabled")
		return l.Expect("enabled ", testenv.Patience) == want
	}, testenv.Patience, time.Millisecond)
}

// testWatch: from Watching to End, no event is missing; before and after, the probes are idle.
func testWatch(t *testing.T, program string) {
	l := listen(t, program)
	info := tracetest.Must(os.Stat(l.sockets(t)[0]))(t)
	require.Equal(t, os.ModeSocket|os.ModeSticky|0o600, info.Mode())
	c := l.client(t)
	require.EqualValues(t, l.PID(), c.Hello().PID)
	require.Equal(t, fmt.Sprintf("%d-%d.sock", l.PID(), c.Hello().Start), filepath.Base(l.sockets(t)[0]))
	probes := tracetest.Must(c.List())(t)
	require.Len(t, probes, 4)
	require.Equal(t, "unnamed", probes[2].Name)
	require.Equal(t, []recording.Arg{{Name: "arg0", Type: 8, Kind: kind.Uint64}, {Name: "arg1", Type: -1, Kind: kind.Int64}}, probes[2].Args)
	for i, pattern := range []wire.Pattern{{Provider: "c[a-b]p?", Probe: "*v*t"}, {Provider: "*", Probe: "event"}, {Provider: "no", Probe: "*"}, {Provider: "*", Probe: "[^n]*"}} {
		l.fire(100)
		r := watch(t, c, wire.Watch{Bytes: 1 << 20, Patterns: []wire.Pattern{pattern}})
		l.fire(1000)
		require.NoError(t, c.End())
		if i == 2 {
			require.Zero(t, count(t, r))
		} else {
			require.EqualValues(t, 1000, count(t, r))
		}
		require.Zero(t, r.Lost())
		require.True(t, r.Head().Ended)
	}
	// A watcher that is killed ends its watch too.
	watch(t, c, all(0))
	l.requireEnabled(t, "1")
	require.NoError(t, c.Close())
	l.requireEnabled(t, "0")
	l.Hangup()
	require.NoError(t, l.Wait(testenv.Patience))
	require.Empty(t, l.sockets(t))
}

// testFrozenWatcher: what watchers of each minor version have sent is answered.
func testFrozenWatcher(t *testing.T, program string) {
	l := listen(t, program)
	want := []wire.Kind{wire.KindHello, wire.KindProbes, wire.KindDone, wire.KindWatching, wire.KindDone}
	for file, want := range map[string][]wire.Kind{
		"watcher-1.0.hex":   want,
		"watcher-later.hex": append([]wire.Kind{wire.KindHello, wire.KindError}, want[1:]...),
	} {
		text, err := os.ReadFile("../../wire/testdata/" + file)
		require.NoError(t, err)
		c := l.dial(t)
		var got []wire.Kind
		for line := range strings.Lines(regexp.MustCompile(`#.*`).ReplaceAllString(string(text), "")) {
			message, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
			require.NoError(t, err)
			if len(message) == 0 {
				continue
			}
			_, err = c.Write(message)
			require.NoError(t, err)
			for kind := wire.KindProbes; kind == wire.KindProbes; got = append(got, kind) {
				kind, _, err = wire.Read(c)
				require.NoError(t, err)
			}
		}
		require.Equal(t, want, got, file)
	}
	// Another major version is told this one, and nothing else.
	c := l.dial(t)
	later := wire.Hello{Major: wire.Major + 1}
	_, err := c.Write(wire.Append(nil, wire.KindHello, later.Append(nil)))
	require.NoError(t, err)
	kind, _, err := wire.Read(c)
	require.NoError(t, err)
	require.Equal(t, wire.KindHello, kind)
	_, _, err = wire.Read(c)
	require.Error(t, err)
}

// testLimits: there are as many watchers and connections as the protocol says, and what they have is free again.
func testLimits(t *testing.T, program string) {
	l := listen(t, program)
	var clients []*wire.Client
	var failure *wire.Error
	for range 2 {
		for range 8 {
			c := l.client(t)
			clients = append(clients, c)
			watch(t, c, all(1<<20))
		}
		c := l.client(t)
		_, err := c.Watch(all(0))
		require.ErrorAs(t, err, &failure)
		require.Equal(t, wire.CodeBusy, failure.Code)
		require.NoError(t, c.Close())
		_, err = clients[0].Watch(all(0))
		require.ErrorAs(t, err, &failure)
		require.Equal(t, wire.CodeMalformed, failure.Code)
		for _, c := range clients {
			require.NoError(t, c.Close())
		}
		clients = nil
		l.requireEnabled(t, "0")
	}
	total := uint64(0)
	for {
		c := l.client(t)
		clients = append(clients, c)
		memory, err := c.Watch(all(1 << 40))
		if errors.As(err, &failure) {
			require.Equal(t, wire.CodeBusy, failure.Code, "whatever the first ones ask for, there is memory for eight")
			require.Len(t, clients, 9)
			break
		}
		require.NoError(t, err)
		r := tracetest.Must(recording.NewReader(memory))(t)
		total += uint64(r.Head().Size())
		memory.Close()
	}
	require.LessOrEqual(t, total, uint64(128<<20))
	require.Greater(t, total, uint64(100<<20))
	for _, c := range clients {
		require.NoError(t, c.Close())
	}
	l.requireEnabled(t, "0")
	var connections []*net.UnixConn
	for range 32 {
		connections = append(connections, l.dial(t))
	}
	_, err := wire.NewClient(l.dial(t), testenv.Patience)
	require.ErrorAs(t, err, &failure)
	require.Equal(t, wire.CodeBusy, failure.Code)
	for _, c := range connections {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		c, err := wire.NewClient(l.dial(t), testenv.Patience)
		return err == nil && c.Close() == nil
	}, testenv.Patience, time.Millisecond)
}

// testHostile: whatever is sent, the program lives and serves others.
func testHostile(t *testing.T, program string) {
	l := listen(t, program, "storm", "2", "26")
	random := rand.New(rand.NewPCG(1, 2))
	hello := wire.Hello{Major: wire.Major}
	patterns := all(1 << 20)
	for range 300 {
		c := l.dial(t)
		message := wire.Append(nil, wire.KindHello, hello.Append(nil))
		for range random.IntN(5) {
			kind := wire.Kind(random.IntN(10))
			body := make([]byte, random.IntN(100))
			if kind == wire.KindWatch && random.IntN(2) == 0 {
				body = patterns.Append(nil)
			}
			for i := range body {
				if random.IntN(20) == 0 {
					body[i] = byte(random.Uint32())
				}
			}
			message = wire.Append(message, kind, body)
		}
		if random.IntN(3) == 0 {
			binary.LittleEndian.PutUint32(message[random.IntN(len(message)-3):], random.Uint32())
		}
		_, _ = c.Write(message)
		if random.IntN(2) == 0 {
			_, _ = c.Read(make([]byte, 100))
		}
		require.NoError(t, c.Close())
	}
	large := l.dial(t) // says that it is too large
	_, err := large.Write(binary.LittleEndian.AppendUint32(nil, wire.MaxBody+1))
	require.NoError(t, err)
	_, err = large.Write(make([]byte, 4))
	require.NoError(t, err)
	_, _, err = wire.Read(large)
	require.Error(t, err)
	deaf := l.dial(t) // asks for more than it reads
	for range 2000 {
		require.NoError(t, deaf.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
		if _, err := deaf.Write(append(wire.Append(nil, wire.KindHello, hello.Append(nil)), wire.Append(nil, wire.KindList, nil)...)); err != nil {
			break
		}
	}
	probes, err := l.client(t).List()
	require.NoError(t, err)
	require.Len(t, probes, 4)
}

// testSocketChildren: a forked child listens on its own socket, and is not in its parent's watch.
func testSocketChildren(t *testing.T, program string) {
	l := listen(t, program)
	c := l.client(t)
	r := watch(t, c, all(1<<20))
	l.Say("fork")
	child := tracetest.Must(strconv.Atoi(l.Expect("child ", testenv.Patience)))(t)
	require.Eventually(t, func() bool { return len(l.sockets(t)) == 2 }, testenv.Patience, time.Millisecond)
	trace := stapsdt(t, "trace", "--via", "socket", "-p", strconv.Itoa(child), "capp:event", "-n", "3")
	require.Equal(t, 3, strings.Count(trace, fmt.Sprintf("%7d app ", child)), trace)
	l.fire(10)
	require.NoError(t, c.End())
	require.EqualValues(t, 10, count(t, r))
	require.Zero(t, r.Lost())
}

// testClosedDescriptors: a daemon that closes all of its descriptors can be watched still.
func testClosedDescriptors(t *testing.T, program string) {
	l := listen(t, program)
	c := l.client(t)
	l.Say("close")
	l.Expect("closed", testenv.Patience)
	r := watch(t, c, all(0))
	l.fire(10)
	require.NoError(t, c.End())
	require.EqualValues(t, 10, count(t, r))
	require.NoError(t, l.client(t).Close())
}

// testStopListening: after sdtStopListening there is no socket and no watch, and sdtListen opens another one.
func testStopListening(t *testing.T, program string) {
	for _, name := range []string{"short", strings.Repeat("x", 200)} {
		cmd := command(t, program, "STAPSDT_SOCKET=1")
		l := &listener{dir: filepath.Join(t.TempDir(), name)}
		cmd.Env = append(cmd.Env, "STAPSDT_DIR="+l.dir)
		l.Process = tracetest.Command(t, cmd)
		require.Equal(t, "0", l.Expect("ready ", testenv.Patience))
		l.stops(t)
	}
}

func (l *listener) stops(t *testing.T) {
	status := string(tracetest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", l.PID())))(t))
	data := 0 // kB, of which a thread's stack usually takes 8,192
	_, err := fmt.Sscan(status[strings.Index(status, "VmData:")+len("VmData:"):], &data)
	require.NoError(t, err)
	require.Less(t, data, 4096)
	l.Say("listen") // wins over the environment
	require.Equal(t, "0", l.Expect("listens ", testenv.Patience))
	for range 3 {
		c := l.client(t)
		watch(t, c, all(0))
		l.Say("stop")
		l.Expect("stopped", testenv.Patience)
		require.Empty(t, l.sockets(t))
		require.Error(t, c.Gone())
		l.Say("enabled")
		require.Equal(t, "0", l.Expect("enabled ", testenv.Patience))
		l.Say("listen")
		require.Equal(t, "0", l.Expect("listens ", testenv.Patience))
	}
	l.Say("listen")
	require.Equal(t, "-1listen: this process listens already", l.Expect("listens ", testenv.Patience))
}

// testLeft: a program whose main thread has left is not kept alive by the thread that serves watchers.
func testLeft(t *testing.T, program string) {
	testenv.Long(t, "the thread looks once a minute")
	l := listen(t, program)
	l.Say("leave")
	require.NoError(t, l.Wait(testenv.Patience))
	require.Empty(t, l.sockets(t))
}

// testExec: a program that executes another one is no longer found.
func testExec(t *testing.T, program string) {
	l := listen(t, program)
	c := l.client(t)
	l.Say("exec")
	require.Error(t, c.Gone())
	require.Eventually(t, func() bool { // its environment is read, and is empty for a moment
		return string(read(t, fmt.Sprintf("/proc/%d/comm", l.PID()))) == "sleep\n"
	}, testenv.Patience, time.Millisecond)
	other, err := net.Listen("unix", t.TempDir()+"/1-1.sock") // the kernel names the sockets of all programs, or of none, as in gVisor
	require.NoError(t, err)
	defer other.Close()
	out, err := exec.Command(tracetest.Stapsdt(t), "trace", "--via", "socket", "-p", strconv.Itoa(l.PID()), "*:*").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "the process does not listen: ")
}

// testDlclose: a program that closes the library while its thread serves watchers goes on, and is served.
func testDlclose(t *testing.T, program string) {
	testenv.NeedsTool(t, "python3", "python3")
	cmd := exec.Command("python3", "-c", `
import ctypes, _ctypes, sys
library = ctypes.CDLL(sys.argv[1])
print("listens", library.sdtListen(), flush=True)
for _ in range(3):
    _ctypes.dlclose(library._handle)
print("closed", flush=True)
sys.stdin.readline()`, filepath.Dir(program)+"/out/libstapsdt.so.0")
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+dir)
	l := &listener{tracetest.Command(t, cmd), dir}
	require.Equal(t, "0", l.Expect("listens ", testenv.Patience))
	l.Expect("closed", testenv.Patience)
	probes := tracetest.Must(l.client(t).List())(t)
	require.Empty(t, probes)
	l.Hangup()
	require.NoError(t, l.Wait(testenv.Patience))
	require.Empty(t, l.sockets(t))
}

// testCommand: the command lists and traces a program of its user, without root.
func testCommand(t *testing.T, program string) {
	testenv.NeedsRoot(t)
	dir, err := os.MkdirTemp("/tmp", "clibrary") // where another user can be
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	for name, from := range map[string]string{"app": program, "stapsdt": tracetest.Stapsdt(t)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), read(t, from), 0o755))
	}
	require.NoError(t, os.Chown(dir, 65533, 65533))
	user := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	cmd := exec.Command(dir+"/app", "storm", "1", "26")
	long := dir + "/" + strings.Repeat("x", 100) // an address has room for 107 bytes
	require.NoError(t, os.Mkdir(long, 0o755))
	require.NoError(t, os.Chown(long, 65533, 65533))
	cmd.Env, cmd.SysProcAttr = []string{"STAPSDT_SOCKET=1", "TMPDIR=" + long}, user
	app := tracetest.Command(t, cmd)
	app.Expect("ready ", testenv.Patience)
	pid := strconv.Itoa(app.PID())
	run := func(args ...string) string {
		cmd := exec.Command(dir+"/stapsdt", args...)
		cmd.SysProcAttr = user
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	require.Contains(t, run("list", "-p", pid), "capp:event(thread uint64, n uint64, check uint64, text string)")
	require.Equal(t, 2, strings.Count(run("trace", "-p", pid, "capp:*", "-n", "2"), " app "))
	counts := exec.Command(dir+"/stapsdt", "count", "-p", pid, "capp:event", "--by", "thread", "-i", "100ms")
	counts.SysProcAttr = user
	tracetest.Command(t, counts).WaitMatch(regexp.MustCompile(`^ *\d+ +\d+ +capp:event +0$`), testenv.Patience)
	require.DirExists(t, long+"/stapsdt-65533")
}

// testOtherUsers: another user is refused, even where the mode of the socket would admit it.
func testOtherUsers(t *testing.T, program string) {
	testenv.NeedsRoot(t)
	l := listen(t, program)
	at := l.sockets(t)[0]
	for dir := l.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	require.NoError(t, os.Chmod(at, 0o666))
	const python = "/usr/bin/python3"
	_, err := os.Stat(python)
	testenv.Needs(t, "the package python3", err)
	cmd := exec.Command(python, "-c", `
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
print("connected", s.recv(1))`, at)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "connected b''\n", string(out))
}
