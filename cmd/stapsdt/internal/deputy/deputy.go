//go:build linux

// Package deputy does in a child process what the kernel may never finish. A descriptor of another
// user's FUSE file, or a page that is mapped from one, waits for a server that need not answer. Not
// even SIGKILL ends that wait: it would keep this process alive as long as the other user likes.
// The child can be left behind.
package deputy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"golang.org/x/sys/unix"
)

// deputy is a child that serves requests, one after another.
type deputy struct {
	conn *net.UnixConn
	pid  int
	// used is locked by who waits for an answer.
	used sync.Mutex
}

var (
	mu      sync.Mutex
	current *deputy
	// slow are the users whose memory was waited for in vain.
	slow = map[uint32]bool{}
)

// name is the deputy's first argument: its executable is that of this process.
const name = "stapsdt-deputy"

// take returns the present deputy, which it starts if there is none. Its mutex is locked.
func take() (*deputy, error) {
	for {
		d, err := present()
		if err != nil {
			return nil, err
		}
		d.used.Lock() // without mu, which a deputy is left with
		mu.Lock()
		same := d == current
		mu.Unlock()
		if same {
			return d, nil
		}
		d.used.Unlock()
	}
}

func present() (*deputy, error) {
	mu.Lock()
	defer mu.Unlock()
	if current == nil {
		d, err := start()
		if err != nil {
			return nil, err
		}
		current = d
	}
	return current, nil
}

func start() (*deputy, error) {
	const kind = unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	pair, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, its := os.NewFile(uintptr(pair[0]), "deputy"), os.NewFile(uintptr(pair[1]), "deputy")
	defer ours.Close()
	defer its.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	// It has none of our files, which it could keep open, and no signal of the terminal is for it.
	c := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{name}, Env: []string{"GOMAXPROCS=1"},
		ExtraFiles: []*os.File{its}, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := c.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	go func() { _ = c.Wait() }()
	return &deputy{conn: conn.(*net.UnixConn), pid: c.Process.Pid}, nil
}

// leave lets go of a deputy, which ends if it can.
func (d *deputy) leave() {
	d.conn.Close()
	mu.Lock()
	defer mu.Unlock()
	if current == d {
		current = nil
	}
}

// A request is an operation with a descriptor. An answer is an errno, and what was read. A
// descriptor may come with it.
type request struct {
	Kind, Size uint32
	Offset     int64
}

const (
	kindReceive = iota // receive from a socket
	kindRead           // read at an offset

	headBytes = 4
	// maxBytes is how much a request reads at most.
	maxBytes = 16 << 10

	// patience is how long a deputy may take to start and to answer.
	patience = 5 * stall.Patience
	// hurry is the patience with users who have exhausted it.
	hurry = patience / 20
)

// errEnded means that the deputy has ended, perhaps through nobody's fault.
var errEnded = errors.New("the process that reads for this one has ended")

// do makes a request about a descriptor, and copies the answer into b. The error is stall.Err if
// the deputy has not answered, and was left behind.
func do(
	kind uint32, fd uintptr, b []byte, offset int64, patience time.Duration,
) (n int, file *os.File, err error) {
	d, err := take()
	if err != nil {
		return 0, nil, err
	}
	defer d.used.Unlock()
	b = b[:min(len(b), maxBytes)]
	out, _ := binary.Append(nil, binary.NativeEndian, request{kind, uint32(len(b)), offset})
	type answer struct {
		bytes []byte
		file  *os.File
	}
	got, err := stall.Within(patience, d, func() (got answer, err error) {
		if _, _, err = d.conn.WriteMsgUnix(out, unix.UnixRights(int(fd)), nil); err != nil {
			return got, err
		}
		in, files := make([]byte, headBytes+maxBytes), fileBuffer()
		n, filled, _, _, err := d.conn.ReadMsgUnix(in, files)
		if fds := wire.Descriptors(files[:filled]); len(fds) > 0 {
			got.file = os.NewFile(uintptr(fds[0]), "memory")
		}
		got.bytes = in[:max(n, 0)]
		return got, err
	}, nil)
	if err != nil || len(got.bytes) < headBytes {
		d.leave()
		if !errors.Is(err, stall.Err) {
			err = fmt.Errorf("%w: %v", errEnded, err)
		}
		return 0, nil, err
	}
	n = copy(b, got.bytes[headBytes:])
	if errno := binary.NativeEndian.Uint32(got.bytes); errno != 0 {
		return n, got.file, unix.Errno(errno)
	}
	return n, got.file, nil
}

// Receive reads from a connection, and returns a descriptor that came with the bytes if it is that
// of a memfd, and else nil.
func Receive(conn *net.UnixConn, b []byte) (n int, memory *os.File, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	var failure error
	err = raw.Read(func(fd uintptr) bool {
		// Wait here, because the deputy has others to serve.
		peeked, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			return false
		case err != nil:
			failure = os.NewSyscallError("recvfrom", err)
		case peeked == 0:
			failure = io.EOF
		default:
			n, memory, failure = do(kindReceive, fd, b, 0, patience)
		}
		return true
	})
	return n, memory, errors.Join(err, failure)
}

// Reader reads the memory of a process, /proc/PID/mem.
type Reader struct{ *os.File }

// ReadAt implements io.ReaderAt. The error is stall.Err if the memory does not answer. After that,
// a user's memory, which is that of root if the process hides its own, is waited for less.
func (r Reader) ReadAt(b []byte, offset int64) (n int, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(r.Fd()), &st); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	if Trusts(st.Uid) {
		return r.File.ReadAt(b, offset)
	}
	limit := patience
	mu.Lock()
	if slow[st.Uid] {
		limit = hurry
	}
	mu.Unlock()
	for n < len(b) {
		read, _, err := do(kindRead, r.Fd(), b[n:], offset+int64(n), limit)
		n += read
		if errors.Is(err, stall.Err) {
			mu.Lock()
			slow[st.Uid] = true
			mu.Unlock()
		}
		if err != nil {
			return n, err
		}
		if read == 0 {
			return n, io.EOF
		}
	}
	return n, nil
}

// Trusts reports whether the processes of a user can do no harm to this one that they could not do
// by a signal. Root in a container has the user ID of root.
func Trusts(uid uint32) bool { return os.Geteuid() != 0 && int(uid) == os.Geteuid() }
