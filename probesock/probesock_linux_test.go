package probesock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
	"github.com/go-stapsdt/stapsdt/internal/region"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain is also the programs that are watched, or that lack something: see children.
func TestMain(m *testing.M) {
	if name := os.Getenv("PROBESOCK_CHILD"); name != "" {
		children[name]()
		return
	}
	os.Exit(m.Run())
}

// listening lets this process listen in a directory of its own, until the test ends.
func listening(t *testing.T) *listener {
	t.Helper()
	t.Setenv("STAPSDT_DIR", t.TempDir())
	require.NoError(t, os.Chmod(os.Getenv("STAPSDT_DIR"), 0o700))
	closer, err := Listen()
	require.NoError(t, err)
	t.Cleanup(func() { closer.Close() })
	return closer.listener
}

// dialed returns a connection to a socket.
func dialed(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// watcher is a client that watches.
type watcher struct {
	*wire.Client
	memory *wire.Memory
	*recording.Reader
}

func connected(t *testing.T, path string) *wire.Client {
	t.Helper()
	c, err := wire.NewClient(dialed(t, path), testenv.Patience)
	require.NoError(t, err)
	return c
}

// watching returns a client that watches the probes that patterns name, as in p:*.
func watching(t *testing.T, path string, bytes uint64, patterns ...string) *watcher {
	t.Helper()
	request := wire.Watch{Bytes: bytes}
	for _, text := range patterns {
		provider, probe, _ := strings.Cut(text, ":")
		request.Patterns = append(request.Patterns, wire.Pattern{Provider: provider, Probe: probe})
	}
	w := &watcher{Client: connected(t, path)}
	var err error
	w.memory, err = w.Watch(request)
	require.NoError(t, err)
	t.Cleanup(w.memory.Close)
	w.Reader, err = recording.NewReader(w.memory)
	require.NoError(t, err)
	return w
}

// events returns what the watcher has not yet seen, as text.
func (w *watcher) events(t *testing.T) (all []string) {
	t.Helper()
	_, err := w.More()
	require.NoError(t, err)
	for e := range eventtest.Events(t, w.Reader) {
		all = append(all, eventtest.Text(e))
	}
	return all
}

func TestWatch(t *testing.T) {
	l := listening(t)
	p := stapsdt.NewProvider("watched")
	defer p.Close()
	one := stapsdt.NewProbe2[int64, string](p, "one", "n", "text")
	two := stapsdt.NewProbe0(p, "two")

	all, err := connected(t, l.path).List()
	require.NoError(t, err)
	all = slices.DeleteFunc(all, func(p *recording.Probe) bool { return p.Provider == "brief" }) // of TestMany, until they are collected
	require.Equal(t, []*recording.Probe{
		{Provider: "watched", Name: "one", Args: []recording.Arg{{Name: "n", Type: -8, Kind: kind.Int64}, {Name: "text", Type: kind.TypeString, Kind: kind.String}}},
		{Provider: "watched", Name: "two"},
	}, all)

	one.Fire(1, "before")
	w := watching(t, l.path, 1<<20, "watch*:o?e", "late:*")
	require.True(t, one.Enabled())
	require.False(t, two.Enabled(), "only what is watched is enabled")
	one.Fire(-2, "text")
	two.Fire()
	late := stapsdt.NewProvider("late")
	defer late.Close()
	probe := stapsdt.NewProbe1[bool](late, "probe", "really")
	probe.Fire(true)
	other := stapsdt.NewProvider("other")
	defer other.Close()
	require.False(t, stapsdt.NewProbe0(other, "probe").Enabled())
	if err := p.Load(); !errors.Is(err, stapsdt.ErrUnsupported) {
		require.NoError(t, err)
	}
	one.Fire(3, "loaded")
	require.NoError(t, p.Unload())
	one.Fire(4, "unloaded")
	require.Equal(t, []string{"watched:one n=-2 text=text", "late:probe really=1", "watched:one n=3 text=loaded", "watched:one n=4 text=unloaded"}, w.events(t))
	one.Fire(5, "last")
	require.NoError(t, w.End())
	require.False(t, one.Enabled())
	one.Fire(6, "after")
	require.Equal(t, []string{"watched:one n=5 text=last"}, w.events(t))
	require.Zero(t, w.Lost())
	head := w.Head()
	require.EqualValues(t, os.Getpid(), head.PID)
	again, err := w.Watch(wire.Watch{Bytes: 1, Patterns: []wire.Pattern{{Provider: "*", Probe: "*"}}})
	require.NoError(t, err)
	again.Close()
	require.True(t, two.Enabled(), "a connection can watch again")
	require.NoError(t, w.Close())
	require.Eventually(t, func() bool { return !two.Enabled() }, testenv.Patience, time.Millisecond)
}

// TestMany: a program that defines providers all the time, which become garbage, loses no event, and a watch does not grow.
func TestMany(t *testing.T) {
	l := listening(t)
	w := watching(t, l.path, 1<<20, "brief:*")
	const n = 20_000
	for i := range n {
		p := stapsdt.NewProvider("brief")
		stapsdt.NewProbe1[int](p, "probe", "n").Fire(i)
		if i%1000 == 0 {
			runtime.GC()
		}
	}
	require.Len(t, w.events(t), n)
	require.Zero(t, w.Lost())
	require.Len(t, w.Probes(), 1)
	require.Less(t, len(stapsdt.Providers()), n/4, "a watch keeps no provider alive")
}

// TestSeveral: watchers and an observer see the same events, each between its start and its end, while
// goroutines fire.
func TestSeveral(t *testing.T) {
	l := listening(t)
	p := stapsdt.NewProvider("several")
	defer p.Close()
	probe := stapsdt.NewProbe2[uint64, uint64](p, "event", "goroutine", "n")
	const goroutines, events = 4, 20_000
	var mu sync.Mutex
	observed := map[uint64]int{}
	stop := p.Observe(func(e *stapsdt.Event) {
		mu.Lock()
		defer mu.Unlock()
		observed[e.Arg(0).Uint64()]++
	})
	var watchers []*watcher
	for range 3 {
		watchers = append(watchers, watching(t, l.path, 32<<20, "several:*"))
	}
	var group sync.WaitGroup
	for g := range uint64(goroutines) {
		group.Go(func() {
			for n := range uint64(events) {
				probe.Fire(g, n)
			}
		})
	}
	group.Wait()
	stop()
	for _, w := range watchers {
		require.NoError(t, w.End())
		seen := w.events(t)
		require.Zero(t, w.Lost())
		require.Len(t, seen, goroutines*events)
	}
	for g := range uint64(goroutines) {
		require.Equal(t, events, observed[g])
	}
}

// TestSlow: a watcher that does not read loses events, and knows how many; no fire waits for it.
func TestSlow(t *testing.T) {
	l := listening(t)
	p := stapsdt.NewProvider("slow")
	defer p.Close()
	probe := stapsdt.NewProbe1[int](p, "event", "n")
	w := watching(t, l.path, 0, "*:*")
	const events = 100_000
	for n := range events {
		probe.Fire(n)
	}
	require.NoError(t, w.End())
	seen := w.events(t)
	require.NotEmpty(t, seen)
	require.Positive(t, w.Lost())
	require.EqualValues(t, events, uint64(len(seen))+w.Lost())
	require.Equal(t, fmt.Sprintf("slow:event n=%d", events-1), seen[len(seen)-1])
}

// TestSealed: no other process can write to a watcher's memory, or change its size.
func TestSealed(t *testing.T) {
	l := listening(t)
	c := dialed(t, l.path)
	hello := wire.Hello{Major: wire.Major}
	_, err := c.Write(wire.Append(nil, wire.KindHello, hello.Append(nil)))
	require.NoError(t, err)
	_, _, err = wire.Read(c)
	require.NoError(t, err)
	_, err = c.Write(wire.Append(nil, wire.KindWatch, (&wire.Watch{}).Append(nil)))
	require.NoError(t, err)
	oob := make([]byte, 64)
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 64), oob)
	require.NoError(t, err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	require.NoError(t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	require.Len(t, fds, 1)
	defer unix.Close(fds[0])
	_, err = unix.Pwrite(fds[0], []byte("x"), 0)
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(fds[0], 0), unix.EPERM)
	_, err = unix.Mmap(fds[0], 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.ErrorIs(t, err, unix.EPERM)
	again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fds[0]), unix.O_RDWR, 0)
	if err == nil { // it is refused by some kernels
		defer unix.Close(again)
		_, err = unix.Pwrite(again, []byte("x"), 0)
	}
	require.Error(t, err)
}

// TestRefused: what a peer must not send ends its connection, or is answered with an error, and the next one is
// served.
func TestRefused(t *testing.T) {
	l := listening(t)
	send := func(bytes []byte) (kind wire.Kind, body []byte, err error) {
		c := dialed(t, l.path)
		hello := wire.Hello{Major: wire.Major, Minor: 99}
		_, err = c.Write(append(wire.Append(nil, wire.KindHello, append(hello.Append(nil), "more"...)), bytes...))
		require.NoError(t, err)
		kind, _, err = wire.Read(c)
		require.NoError(t, err)
		require.Equal(t, wire.KindHello, kind)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(testenv.Patience)))
		return wire.Read(c)
	}
	refused := func(code wire.Code, bytes []byte) {
		t.Helper()
		kind, body, err := send(bytes)
		require.NoError(t, err)
		require.Equal(t, wire.KindError, kind)
		failure, err := wire.DecodeError(body)
		require.NoError(t, err)
		require.Equal(t, code, failure.Code)
	}
	refused(wire.CodeUnknown, wire.Append(nil, 99, nil))
	refused(wire.CodeMalformed, wire.Append(nil, wire.KindWatch, []byte{1}))
	refused(wire.CodeMalformed, wire.Append(nil, wire.KindWatch, (&wire.Watch{Patterns: make([]wire.Pattern, wire.MaxPatterns+1)}).Append(nil)))
	_, _, err := send([]byte{0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0})
	require.ErrorIs(t, err, io.EOF, "a message of 4 GB")

	c := dialed(t, l.path) // of another major version
	future := wire.Hello{Major: wire.Major + 1}
	_, err = c.Write(wire.Append(nil, wire.KindHello, future.Append(nil)))
	require.NoError(t, err)
	kind, body, err := wire.Read(c)
	require.NoError(t, err)
	require.Equal(t, wire.KindHello, kind)
	answer, err := wire.DecodeHello(body)
	require.NoError(t, err)
	require.EqualValues(t, wire.Major, answer.Major)
	_, _, err = wire.Read(c)
	require.ErrorIs(t, err, io.EOF)

	c = dialed(t, l.path) // another protocol
	_, err = c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	_, _, err = wire.Read(c)
	require.Error(t, err)

	require.NotEmpty(t, connected(t, l.path).Hello())
}

// TestTooMany: a thousand connections cost what 32 do, and watchers beyond the eighth are refused.
func TestTooMany(t *testing.T) {
	others := testenv.Goroutines() // of earlier tests, which may not have ended
	l := listening(t)
	var watchers []*watcher
	for range maxWatchers {
		watchers = append(watchers, watching(t, l.path, 32<<20, "*:*")) // as much as the command asks for
	}
	c := connected(t, l.path)
	_, err := c.Watch(wire.Watch{})
	var failure *wire.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, wire.CodeBusy, failure.Code)
	var held []net.Conn
	for range 1000 {
		c, err := net.Dial("unix", l.path)
		require.NoError(t, err)
		held = append(held, c)
	}
	require.Eventually(t, func() bool { // one that has ended may still be there
		return testenv.Goroutines() <= others+1+maxConnections
	}, testenv.Patience, time.Millisecond)
	for _, c := range held {
		c.Close()
	}
	for _, w := range watchers {
		w.Close()
	}
	require.Eventually(t, func() bool {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: l.path, Net: "unix"})
		require.NoError(t, err)
		defer conn.Close()
		c, err := wire.NewClient(conn, testenv.Patience)
		if err != nil {
			return false
		}
		memory, err := c.Watch(wire.Watch{Bytes: 1})
		if err == nil {
			memory.Close()
		}
		return err == nil
	}, testenv.Patience, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.memory <= 1<<20 // that of the last one, which may not have ended
	}, testenv.Patience, time.Millisecond)
}

// TestWatchLate: a watcher may take its time after an answer.
func TestWatchLate(t *testing.T) {
	testenv.Long(t, "it waits for longer than an answer may take")
	t.Parallel()
	c := connected(t, start(t, "idle").path)
	_, err := c.List()
	require.NoError(t, err)
	time.Sleep(answerPatience + 100*time.Millisecond)
	memory, err := c.Watch(wire.Watch{Bytes: 1})
	require.NoError(t, err)
	memory.Close()
}

// TestEndless: watches that are begun and ended all the time stop the world no more than a hundred times a second.
func TestEndless(t *testing.T) {
	l := listening(t)
	c := connected(t, l.path)
	const n = 20
	began := time.Now()
	for range n {
		memory, err := c.Watch(wire.Watch{Bytes: 1, Patterns: []wire.Pattern{{Provider: "*", Probe: "*"}}})
		require.NoError(t, err)
		memory.Close()
		require.NoError(t, c.End())
	}
	require.GreaterOrEqual(t, time.Since(began), (n-1)*endPause)
}

// threadsChild may have no more threads than it has when it listens.
func threadsChild() {
	p := stapsdt.NewProvider("child")
	probe := stapsdt.NewProbe1[int](p, "event", "n")
	makeThreads()
	announce()
	_ = unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: 1})
	for n := 0; ; n++ {
		probe.Fire(n)
		time.Sleep(time.Millisecond)
	}
}

// TestThreads: a watcher does not end a program that may have no more threads.
func TestThreads(t *testing.T) {
	testenv.NeedsRoot(t) // whom the limit does not concern
	testenv.NotRaced(t, "the detector has threads of its own")
	dir := t.TempDir()
	const user = 4343
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		require.NoError(t, os.Chmod(at, 0o755))
	}
	require.NoError(t, os.Chown(dir, user, user))
	program := filepath.Join(dir, "program")
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, content, 0o755))
	cmd := exec.Command(program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	c := startIn(t, dir, cmd, "threads")
	for range 3 {
		w := watching(t, c.path, 1<<20, "child:*")
		seen := 0
		require.Eventually(t, func() bool {
			seen += len(w.events(t))
			return seen > 10
		}, testenv.Patience, time.Millisecond)
		require.NoError(t, w.End())
		require.NoError(t, w.Close())
	}
}

// TestSilent: who connects and says nothing is disconnected.
func TestSilent(t *testing.T) {
	testenv.Long(t, "it waits for what a listener waits for")
	l := listening(t)
	c := dialed(t, l.path)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(requestPatience+testenv.Patience)))
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// TestMemory: watchers share what there is.
func TestMemory(t *testing.T) {
	l := &listener{}
	chunks, size, err := l.reserve(1 << 60)
	require.NoError(t, err)
	require.LessOrEqual(t, size, int64(maxRing+2<<20))
	require.EqualValues(t, maxRing/recording.ChunkBytes, chunks)
	l.memory = maxMemory - size/2
	chunks, _, err = l.reserve(maxRing)
	require.NoError(t, err)
	require.Less(t, chunks, uint64(maxRing/recording.ChunkBytes))
	l.memory = maxMemory
	_, _, err = l.reserve(1)
	require.ErrorContains(t, err, "no memory for another watcher")
}

// TestMemoryOfContainer: the memory of a watcher is a share of what the process sees, and small if it may have a limit that it does not
// see.
func TestMemoryOfContainer(t *testing.T) {
	const request = 32 << 20 / recording.ChunkBytes // chunks
	for name, test := range map[string]struct {
		room recordfile.Room
		used int64
		want []uint64 // chunks of watchers that come one after another, 0 for none
	}{
		"the machine's":     {recordfile.Room{Bytes: 8 << 30}, 0, []uint64{request, request, request, request / 2}},
		"a limit":           {recordfile.Room{Bytes: 128 << 20, Group: "memory.max"}, 0, []uint64{request / 8}},
		"a small limit":     {recordfile.Room{Bytes: 4 << 20, Group: "memory.max"}, 0, []uint64{0}},
		"unknown":           {recordfile.Room{Bytes: 8 << 30, Unknown: true}, 0, []uint64{64, 16, 16, 4, 4, 4, 4, 4, 0}},
		"unknown and short": {recordfile.Room{Bytes: 32 << 20, Unknown: true}, 0, []uint64{16}},
	} {
		l := &listener{}
		for i, want := range test.want {
			chunks, size, err := l.reserveIn(test.room, request*recording.ChunkBytes)
			require.Equal(t, want == 0, err != nil, "%s: %v", name, err)
			require.Equal(t, want, chunks, "%s: watcher %d", name, i)
			if test.room.Unknown {
				require.LessOrEqual(t, size, int64(maxUnknown)/2+maxUnknown/16, name)
				require.LessOrEqual(t, l.memory, int64(maxUnknown), name)
			}
		}
	}
}

func TestAdmitted(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	require.True(t, isAdmitted(1000, 1000, no))
	require.True(t, isAdmitted(0, 1000, no))
	require.False(t, isAdmitted(1001, 1000, yes))
	require.False(t, isAdmitted(1000, 0, yes))
	require.False(t, isAdmitted(region.OverflowUser, region.OverflowUser, no), "it can be any user")
	require.True(t, isAdmitted(region.OverflowUser, region.OverflowUser, yes))
}

// TestFiles: the socket belongs to the user alone, is gone after Close, and what killed processes have left is
// removed.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	t.Setenv("STAPSDT_DIR", dir)
	stale, young, other := filepath.Join(dir, "1-1.sock"), filepath.Join(dir, "2-2.sock"), filepath.Join(dir, "3.so")
	far := filepath.Join(dir, "4-4.sock")
	var self recording.Head
	recordfile.Describe(&self)
	beside := filepath.Join(dir, wire.SocketName(5, self.Start-staleTicks/2, 1)) // its process began with this one
	for _, path := range []string{stale, young, far, beside} {
		s, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		require.NoError(t, err)
		s.SetUnlinkOnClose(false)
		require.NoError(t, s.Close())
	}
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	old := time.Now().Add(-2 * staleAge)
	later := time.Now().Add(time.Hour) // however long this test takes
	require.NoError(t, os.Chtimes(young, later, later))
	require.NoError(t, os.Chtimes(stale, old, old))
	require.NoError(t, os.Chtimes(far, old, old))
	require.NoError(t, os.Chtimes(beside, old, old))
	long := filepath.Join(dir, strings.Repeat("x", 200)) // an address has room for 107 bytes
	require.NoError(t, os.Mkdir(long, 0o700))
	require.NoError(t, os.Rename(far, filepath.Join(long, "4-4.sock")))
	require.NoError(t, os.Chtimes(other, old, old))
	closer, err := Listen()
	require.NoError(t, err)
	connected(t, closer.Path()) // after which the directory is tidy
	require.NoFileExists(t, stale)
	require.FileExists(t, beside)
	require.FileExists(t, young)
	require.FileExists(t, other)
	path := closer.Path()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|os.ModeSticky|0o600, info.Mode())
	_, err = Listen()
	require.ErrorIs(t, err, errListens)
	p := stapsdt.NewProvider("files")
	defer p.Close()
	probe := stapsdt.NewProbe0(p, "probe")
	require.Zero(t, closer.Watchers())
	w := watching(t, path, 0, "*:*")
	require.True(t, probe.Enabled())
	require.Equal(t, 1, closer.Watchers())
	require.NoError(t, closer.Close())
	require.NoError(t, closer.Close())
	require.Zero(t, closer.Watchers())
	require.Equal(t, path, closer.Path())
	require.False(t, probe.Enabled())
	require.NoFileExists(t, path)
	require.ErrorIs(t, w.Gone(), io.EOF)
	closer, err = Listen()
	require.NoError(t, err)
	require.NoError(t, closer.Close())

	t.Setenv("STAPSDT_DIR", long)
	closer, err = Listen()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(long, "4-4.sock"))
		return errors.Is(err, os.ErrNotExist)
	}, testenv.Patience, time.Millisecond)
	path = closer.Path()
	require.Equal(t, long, filepath.Dir(path))
	require.FileExists(t, path)
	require.NoError(t, closer.Close())
	require.NoFileExists(t, path)
	t.Setenv("STAPSDT_DIR", filepath.Join(dir, "missing", "directory"))
	_, err = Listen()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, ": mount a writable volume, and let STAPSDT_DIR name a directory in it, such as VOLUME/stapsdt")
	require.NoError(t, os.Chmod(dir, 0o777))
	t.Setenv("STAPSDT_DIR", dir)
	_, err = Listen()
	require.NotContains(t, err.Error(), "mount") // it says already what to do
}

// TestZeroListener: a listener that was never opened is closed.
func TestZeroListener(t *testing.T) {
	for _, l := range []*Listener{nil, {}} {
		require.NoError(t, l.Close())
		require.Empty(t, l.Path())
		require.Zero(t, l.Watchers())
	}
}

// TestIdle: a listener costs a goroutine and a descriptor before a watcher connects, and after the watcher has left.
func TestIdle(t *testing.T) {
	l := listening(t)
	// sockets returns the number of descriptors that are sockets of the listener's path.
	sockets := func() (n int) {
		table, err := os.ReadFile("/proc/self/net/unix")
		require.NoError(t, err)
		inodes := map[string]bool{}
		for line := range strings.Lines(string(table)) {
			if fields := strings.Fields(line); fields[len(fields)-1] == l.path {
				inodes["socket:["+fields[len(fields)-2]+"]"] = true
			}
		}
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, entry := range entries {
			if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && inodes[target] {
				n++
			}
		}
		return n
	}
	reserved := func() int64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.memory
	}
	require.Eventually(t, func() bool { return testenv.Goroutines() == 1 }, testenv.Patience, time.Millisecond)
	require.Equal(t, 1, sockets())
	w := watching(t, l.path, 0, "*:*")
	require.Equal(t, 2, sockets())
	require.NoError(t, w.End())
	require.NoError(t, w.Close())
	require.Eventually(t, func() bool { return testenv.Goroutines() == 1 && sockets() == 1 && reserved() == 0 }, testenv.Patience, time.Millisecond)
}

// TestFireAllocatesNothing: neither while a watcher reads nor without one.
func TestFireAllocatesNothing(t *testing.T) {
	testenv.NotRaced(t, "the detector allocates")
	l := listening(t)
	p := stapsdt.NewProvider("allocates")
	defer p.Close()
	probe := stapsdt.NewProbe2[int, string](p, "event")
	w := watching(t, l.path, 1<<20, "*:*")
	require.Zero(t, testing.AllocsPerRun(1000, func() { probe.Fire(1, "a text of 16 byte") }))
	require.NoError(t, w.End())
	require.NotEmpty(t, w.events(t))
}

// TestWithoutProc: without /proc, no watcher would find the socket, and none is made.
func TestWithoutProc(t *testing.T) {
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	cmd := exec.Command("/proc/self/exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	c := startIn(t, dir, cmd, "no proc")
	require.Equal(t, "probesock: listen: "+errNoStart.Error(), c.path)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// children are programs that this test binary is: see start.
var children = map[string]func(){
	"idle":      idleChild,
	"no proc":   withoutProcChild,
	"exhausted": exhaustedChild,
	"exec":      execChild,
	"threads":   threadsChild,
}

// child is a program that listens.
type child struct {
	*exec.Cmd
	path string // of its socket
	in   io.Writer
	out  *bufio.Reader
}

// start starts a child that listens.
func start(t *testing.T, name string) *child {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	return startIn(t, dir, exec.Command("/proc/self/exe"), name)
}

// startIn is start with a directory of the child's, and a command that is this test binary.
func startIn(t *testing.T, dir string, cmd *exec.Cmd, name string) *child {
	t.Helper()
	testenv.NotEmulated(t, "it starts itself as another program")
	cmd.Env = append(os.Environ(), "PROBESOCK_CHILD="+name, "STAPSDT_DIR="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	c := &child{cmd, "", in, bufio.NewReader(out)}
	c.path = c.line(t)
	return c
}

// line returns the next line that the child prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	return testenv.Line(t, c.Cmd, c.out)
}

// announce listens, and prints where.
func announce() {
	closer, err := Listen()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(closer.Path())
}

// idleChild does nothing.
func idleChild() {
	announce()
	select {}
}

// withoutProcChild has no /proc.
func withoutProcChild() {
	if err := unix.Unmount("/proc", unix.MNT_DETACH); err != nil {
		fmt.Println(err)
	}
	announce()
}

// exhaustedChild has no descriptors for those who connect, until it reads a byte. It prints a line when its listener could not accept a
// connection.
func exhaustedChild() {
	p := stapsdt.NewProvider("child")
	probe := stapsdt.NewProbe0(p, "event")
	announce()
	in := func(what string) bool {
		stacks := make([]byte, 1<<20)
		return regexp.MustCompile(what).Match(stacks[:runtime.Stack(stacks, true)])
	}
	const accepting = `probesock\.\(\*listener\)\.accept\(`
	for !in(accepting) { // it holds a descriptor until then
		time.Sleep(time.Millisecond)
	}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64})
	var held []*os.File
	for f, err := os.Open("/dev/null"); err == nil; f, err = os.Open("/dev/null") {
		held = append(held, f)
	}
	fmt.Println("exhausted")
	for !in(`time\.Sleep\([^)]*\)\n.*\n.*` + accepting) {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("refused")
	_, _ = os.Stdin.Read(make([]byte, 1))
	for _, f := range held {
		f.Close()
	}
	for range time.Tick(time.Millisecond) {
		probe.Fire()
	}
}

// TestExhausted: a program without descriptors goes on, and serves again when it has some.
func TestExhausted(t *testing.T) {
	c := start(t, "exhausted")
	require.Equal(t, "exhausted", c.line(t))
	dialed(t, c.path)
	require.Equal(t, "refused", c.line(t))
	_, err := c.in.Write([]byte("x"))
	require.NoError(t, err)
	w := watching(t, c.path, 0, "child:*")
	require.Eventually(t, func() bool { return len(w.events(t)) > 0 }, testenv.Patience, time.Millisecond)
}

// makeThreads makes more threads than a child's goroutines can use at once. The runtime keeps them, so that it needs no new
// one however busy the machine is. They wait in system calls: for goroutines that are bound to a thread, the runtime makes others
// in a thread of its own, which may be late.
func makeThreads() {
	threads := func() int {
		all, _ := os.ReadDir("/proc/self/task")
		return len(all)
	}
	var pipe [2]int
	_ = unix.Pipe(pipe[:])
	most := 8 + runtime.GOMAXPROCS(0)
	var free sync.WaitGroup
	for range most {
		free.Go(func() { _, _ = unix.Read(pipe[0], make([]byte, 1)) })
	}
	for threads() < most {
		time.Sleep(time.Millisecond)
	}
	unix.Close(pipe[1])
	free.Wait()
	for last, same := 0, 0; same < 20; same++ { // what the runtime has begun to make is there
		if now := threads(); now != last {
			last, same = now, 0
		}
		time.Sleep(time.Millisecond)
	}
}

// TestLimited: a watcher for which there is no memory is refused, and a smaller one is not.
func TestLimited(t *testing.T) {
	c := connected(t, listening(t).path)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: limit.Max}))
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
	_, err := c.Watch(wire.Watch{Bytes: 64 << 20})
	var failure *wire.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, wire.CodeMemory, failure.Code)
	require.ErrorContains(t, err, "RLIMIT_FSIZE")
	memory, err := c.Watch(wire.Watch{Bytes: 1})
	require.NoError(t, err)
	memory.Close()
}

// execChild becomes another program when it gets a signal.
func execChild() {
	p := stapsdt.NewProvider("child")
	probe := stapsdt.NewProbe1[int](p, "event", "n")
	watched := make(chan os.Signal, 1)
	signal.Notify(watched, unix.SIGUSR1)
	announce()
	<-watched
	probe.Fire(1)
	fmt.Fprintln(os.Stderr, unix.Exec("/bin/sleep", []string{"sleep", "1000"}, nil))
}

// TestExec: exec ends a watch, whose events stay.
func TestExec(t *testing.T) {
	c := start(t, "exec")
	w := watching(t, c.path, 0, "child:*")
	require.NoError(t, c.Process.Signal(unix.SIGUSR1))
	require.ErrorIs(t, w.Gone(), io.EOF)
	require.Equal(t, []string{"child:event n=1"}, w.events(t))
}

// FuzzConnection: whatever a peer sends, its connection ends, and leaves neither memory nor a watcher.
func FuzzConnection(f *testing.F) {
	hello := wire.Append(nil, wire.KindHello, (&wire.Hello{Major: wire.Major}).Append(nil))
	list, end := wire.Append(nil, wire.KindList, nil), wire.Append(nil, wire.KindEnd, nil)
	watch := wire.Append(nil, wire.KindWatch, (&wire.Watch{Bytes: 1 << 20, Patterns: []wire.Pattern{{Provider: "*", Probe: "*"}}}).Append(nil))
	for _, requests := range [][][]byte{
		{}, {hello}, {list}, {hello, list}, {hello, watch}, {hello, watch, watch}, {hello, watch, end, watch, end}, {hello, end, hello}, {hello, watch[:len(watch)-1]},
		{wire.Append(nil, wire.KindHello, (&wire.Hello{Major: wire.Major + 1}).Append(nil)), list}, {hello, {255, 255, 255, 255, 5, 0, 0, 0}},
	} {
		f.Add(slices.Concat(requests...))
	}
	p := stapsdt.NewProvider("fuzzed")
	f.Cleanup(func() { p.Close() })
	probe := stapsdt.NewProbe1[string](p, "probe")
	l := &listener{connections: map[*connection]bool{}, head: recording.Head{PID: uint32(os.Getpid())}, hello: wire.Hello{Major: wire.Major}}
	f.Fuzz(func(t *testing.T, requests []byte) {
		own, peer := testenv.SocketPair(t)
		file, err := own.File()
		require.NoError(t, err)
		require.NoError(t, own.Close())
		l.add(file)
		require.NoError(t, peer.SetDeadline(time.Now().Add(testenv.Patience)))
		go func() {
			_, _ = peer.Write(requests)
			_ = peer.CloseWrite()
		}()
		_, _ = io.Copy(io.Discard, peer)
		probe.Fire("text")
		l.served.Wait()
		require.Empty(t, l.connections)
		require.Zero(t, l.watchers+int(l.memory))
		require.False(t, probe.Enabled())
	})
}
