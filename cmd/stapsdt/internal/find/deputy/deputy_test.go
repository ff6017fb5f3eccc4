//go:build linux

package deputy

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/deputy/child"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/fusetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// memory returns a memfd with a text.
func memory(t *testing.T, text string) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	_, err = unix.Write(fd, []byte(text))
	require.NoError(t, err)
	return fd
}

// TestEarly: a child begins its task before most packages of the program are initialized.
func TestEarly(t *testing.T) {
	ours, its, err := pair(unix.SOCK_SEQPACKET)
	require.NoError(t, err)
	defer its.Close()
	ours.Close() // so that the child ends at once
	c := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{child.Name, child.Read},
		Env: []string{"GODEBUG=inittrace=1"}, ExtraFiles: []*os.File{its},
	}
	said, err := c.CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(said), "init os @")
	for _, late := range []string{"net", "golang.org/x/sys/unix", "testing"} {
		require.NotContains(t, string(said), "init "+late+" @")
	}
}

// linked returns the ends of a connection of which the child relays one.
func linked(t *testing.T) (program, watcher *net.UnixConn) {
	t.Helper()
	ours, its, err := pair(unix.SOCK_STREAM)
	require.NoError(t, err)
	t.Cleanup(func() { ours.Close() })
	conn, err := net.FileConn(its)
	require.NoError(t, err)
	its.Close()
	relay, err := NewRelay(t.Name())
	require.NoError(t, err)
	watcher, err = relay.Take(conn.(*net.UnixConn))
	require.NoError(t, err)
	t.Cleanup(func() { watcher.Close() })
	return ours, watcher
}

// requireNone requires that a connection ends without more bytes.
func requireNone(t *testing.T, c *net.UnixConn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(testenv.Patience))
	n, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, n)
}

// TestRelay: bytes pass both ways, and of the descriptors that come with them the first of a memfd.
func TestRelay(t *testing.T) {
	program, watcher := linked(t)
	_, err := watcher.Write([]byte("ask"))
	require.NoError(t, err)
	b := make([]byte, 8)
	n, err := program.Read(b)
	require.NoError(t, err)
	require.Equal(t, "ask", string(b[:n]))

	pipe := [2]int{}
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	first, second := memory(t, "first"), memory(t, "second")
	for text, fds := range map[string][]int{
		"none": nil, "memory": {first}, "pipes": pipe[:], "more": {pipe[0], first, second},
	} {
		program, watcher := linked(t)
		_, _, err := program.WriteMsgUnix([]byte(text), unix.UnixRights(fds...), nil)
		require.NoError(t, err)
		control := child.ControlBuffer()
		n, filled, _, _, err := watcher.ReadMsgUnix(b, control)
		require.NoError(t, err)
		require.Equal(t, text, string(b[:n]))
		got := wire.Descriptors(control[:filled])
		if text == "none" || text == "pipes" {
			require.Empty(t, got, text)
		} else {
			require.Len(t, got, 1)
			held := make([]byte, 16)
			n, _ = unix.Pread(got[0], held, 0)
			require.Equal(t, "first", string(held[:n]))
			unix.Close(got[0])
		}
		if len(fds) > 1 { // which no program sends that keeps to the protocol
			requireNone(t, watcher)
			requireNone(t, program)
		}
	}
	unix.Close(pipe[1])
	ended := []unix.PollFd{{Fd: int32(pipe[0])}}
	_, err = unix.Poll(ended, int(testenv.Patience.Milliseconds()))
	require.NoError(t, err)
	require.EqualValues(t, unix.POLLHUP, ended[0].Revents, "the child keeps nothing")
	unix.Close(pipe[0])

	_ = watcher.SetReadDeadline(time.Unix(1, 0))
	_, err = watcher.Read(b)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_ = watcher.SetReadDeadline(time.Time{})
	program.Close()
	requireNone(t, watcher)
	program, watcher = linked(t)
	watcher.Close()
	requireNone(t, program)
}

// TestRelayRefusal: what a program says before it closes the connection arrives, also if it does not
// wait for what it is asked.
func TestRelayRefusal(t *testing.T) {
	for range 200 {
		program, watcher := linked(t)
		_, err := program.Write([]byte("busy"))
		require.NoError(t, err)
		program.Close()
		_, _ = watcher.Write([]byte("ask"))
		said, err := io.ReadAll(watcher)
		require.NoError(t, err)
		require.Equal(t, "busy", string(said))
	}
}

// TestRelayWhole: more bytes pass than a connection takes at once.
func TestRelayWhole(t *testing.T) {
	program, watcher := linked(t)
	all := make([]byte, 4<<20)
	for i := range all {
		all[i] = byte(i * i >> 8)
	}
	go func() {
		_, _ = program.Write(all)
		program.Close()
	}()
	got, err := io.ReadAll(watcher)
	require.NoError(t, err)
	require.Equal(t, all, got)
}

// whileStopped calls f while the children of this process are stopped.
func whileStopped(t *testing.T, f func()) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	children := 0
	for _, path := range stats {
		var pid, parent int
		var state string
		look := func() bool {
			stat, _ := os.ReadFile(path)
			n, _ := fmt.Sscanf(string(stat), "%d (exe) %1s %d", &pid, &state, &parent)
			return n == 3
		}
		if !look() || parent != os.Getpid() {
			continue
		}
		children++
		_ = unix.Kill(pid, unix.SIGSTOP) // it may have ended
		defer func() { _ = unix.Kill(pid, unix.SIGCONT) }()
		stopped := func() bool { return !look() || state == "T" || state == "Z" }
		require.Eventually(t, stopped, testenv.Patience, time.Millisecond)
	}
	require.NotZero(t, children)
	f()
}

// TestLastReference: who drops the last reference to a file can wait forever. That is neither who
// reads from the connection to which it was sent, nor who closes it, and the program's end knows.
func TestLastReference(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for _, read := range []bool{true, false} {
		near, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		far, err := l.Accept()
		require.NoError(t, err)
		_ = near.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for err == nil { // until nobody takes more
			_, err = near.Write(make([]byte, 1<<20))
		}
		require.NoError(t, near.(*net.TCPConn).SetLinger(3600))
		file, err := near.(*net.TCPConn).File()
		require.NoError(t, err)

		program, watcher := linked(t)
		whileStopped(t, func() { // or this process could be who drops the last one
			_, _, err = program.WriteMsgUnix([]byte("x"), unix.UnixRights(int(file.Fd())), nil)
			require.NoError(t, err)
			near.Close()
			file.Close()
		})
		if read {
			_, err = io.ReadFull(watcher, make([]byte, 1))
			require.NoError(t, err)
		}
		watcher.Close()
		requireNone(t, program)
		other, its := linked(t) // the child serves others meanwhile
		its.Close()
		requireNone(t, other)
		require.NoError(t, far.Close())
	}
}

// TestRelayOver: a program is watched no longer when this process has ended, even if it does not
// read what it is asked.
func TestRelayOver(t *testing.T) {
	program, watcher := linked(t)
	_ = watcher.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err := error(nil); err == nil; {
		_, err = watcher.Write(make([]byte, 1<<16))
	}
	relays.Lock()
	relays.requests[t.Name()].Close()
	delete(relays.requests, t.Name())
	relays.Unlock()
	_ = program.SetReadDeadline(time.Now().Add(testenv.Patience))
	_, err := io.Copy(io.Discard, program)
	require.NoError(t, err)

	program, watcher = linked(t) // by another child
	watcher.Close()
	requireNone(t, program)
}

// mapper is the process of a test that maps a page of a file, prints its address, and waits.
const mapper = "STAPSDT_TEST_MAPPER"

func TestMain(m *testing.M) {
	path := os.Getenv(mapper)
	if path == "" {
		os.Exit(m.Run())
	}
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		panic(err)
	}
	page, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	unix.Close(fd)
	fmt.Println(uintptr(unsafe.Pointer(&page[0])))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestReadAt: the deputy reads memory, and is left behind if a page does not answer. Another one then
// serves, also several at once.
func TestReadAt(t *testing.T) {
	testenv.NeedsRoot(t)
	self, err := os.Open("/proc/self/mem")
	require.NoError(t, err)
	defer self.Close()
	text := make([]byte, 3*child.MaxBytes)
	for i := range text {
		text[i] = byte(i * i)
	}
	got := make([]byte, len(text))
	address := int64(uintptr(unsafe.Pointer(&text[0])))
	_, err = Reader{self}.ReadAt(got, address)
	require.NoError(t, err)
	require.Equal(t, text, got)
	_, err = Reader{self}.ReadAt(got, 1)
	require.ErrorIs(t, err, unix.EIO)

	fs := fusetest.Mount(t)
	fs.Serve(make([]byte, os.Getpagesize()))
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), mapper+"="+filepath.Join(fs.Dir, "file"))
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	defer func() {
		fs.Abort()
		in.Close()
		_ = c.Wait()
	}()
	var page int64
	_, err = fmt.Fscan(out, &page)
	require.NoError(t, err)
	its, err := os.Open(fmt.Sprintf("/proc/%d/mem", c.Process.Pid))
	require.NoError(t, err)
	defer its.Close()
	fs.Held.Store(true)
	before := current
	_, err = Reader{its}.ReadAt(got[:1], page)
	require.ErrorIs(t, err, stall.Err)
	defer delete(slow, 0)
	_, err = Reader{self}.ReadAt(got[:1], address)
	require.NoError(t, err)
	require.NotSame(t, before, current)

	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			b := make([]byte, 1)
			if i%4 == 0 {
				_, err := Reader{its}.ReadAt(b, page)
				assert.ErrorIs(t, err, stall.Err)
				return
			}
			_, err := Reader{self}.ReadAt(b, address+int64(i))
			assert.NoError(t, err)
			assert.Equal(t, text[i], b[0])
		})
	}
	all.Wait()
}
