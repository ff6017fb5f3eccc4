//go:build linux

package deputy

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"
	"github.com/go-stapsdt/stapsdt/internal/fusetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pair returns both ends of a connection.
func pair(t *testing.T) (ours, its *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	ends := [2]*net.UnixConn{}
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(file)
		require.NoError(t, err)
		file.Close()
		t.Cleanup(func() { conn.Close() })
		ends[i] = conn.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

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

// TestReceive: of the descriptors that come with bytes, the first of a memfd arrives.
func TestReceive(t *testing.T) {
	ours, its := pair(t)
	pipe := [2]int{}
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	first, second := memory(t, "first"), memory(t, "second")
	b := make([]byte, 8)
	for text, fds := range map[string][]int{"none": nil, "pipes": pipe[:], "memory": {pipe[0], first, second}} {
		go func() { // it may come later than it is waited for
			time.Sleep(10 * time.Millisecond)
			_, _, _ = its.WriteMsgUnix([]byte(text), unix.UnixRights(fds...), nil)
		}()
		n, file, err := Receive(ours, b)
		require.NoError(t, err)
		require.Equal(t, text, string(b[:n]))
		if text != "memory" {
			require.Nil(t, file, text)
			continue
		}
		held := make([]byte, 16)
		n, _ = file.ReadAt(held, 0)
		require.Equal(t, "first", string(held[:n]))
		require.NoError(t, file.Close())
	}
	require.Eventually(t, func() bool {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", current.pid))
		return err == nil && !slices.ContainsFunc(files, func(f os.DirEntry) bool {
			link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", current.pid, f.Name()))
			return strings.HasPrefix(link, "/memfd:") || strings.HasPrefix(link, "pipe:")
		})
	}, testenv.Patience, time.Millisecond, "the deputy keeps nothing")
	_ = ours.SetReadDeadline(time.Unix(1, 0))
	_, _, err := Receive(ours, b)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_ = ours.SetReadDeadline(time.Time{})
	its.Close()
	_, _, err = Receive(ours, b)
	require.ErrorIs(t, err, io.EOF)
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
	text := make([]byte, 3*maxBytes)
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
	near, far := pair(t)
	_, err = far.Write([]byte("more"))
	require.NoError(t, err)
	n, _, err := Receive(near, got)
	require.NoError(t, err)
	require.Equal(t, 4, n)
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
