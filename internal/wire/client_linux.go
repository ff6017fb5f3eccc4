package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/barrier"

	"golang.org/x/sys/unix"
)

// ErrVersion is the error for a program that speaks another major version.
var ErrVersion = errors.New("the program speaks another version of the protocol")

// ErrGone is the error for a program that has closed the connection. It replaces the kernel's
// errors for this, so that no caller mistakes them for errors of its own output.
var ErrGone = errors.New("the program has closed the connection")

// ErrProbes is the error for a program whose list of probes takes too much memory.
var ErrProbes = errors.New("the program has too many probes for its socket")

const (
	// shortList is the number of bytes of a list that every program may have. It is at least the
	// size of the table of a recording.
	shortList = 1 << 20
	// maxList limits the memory of a longer list: its bytes, and perProbe for each probe. There is
	// room for more than 100,000 probes. maxLong limits that of the longer lists of all programs.
	maxList  = 48 << 20
	maxLong  = 128 << 20
	perProbe = 200
)

// long is the memory of the longer lists of the open clients.
var long atomic.Int64

// Conn is a connection to a program's socket, such as a *net.UnixConn. The programs link this
// package too, but not package net.
type Conn interface {
	io.ReadWriteCloser
	syscall.Conn
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
}

// Client is a watcher's side of a connection. It does not trust the program. Except for Close, it
// is not safe for concurrent use.
type Client struct {
	conn     Conn
	patience time.Duration
	hello    Hello
	unsent   error        // the error from sending the last request, or nil
	long     atomic.Int64 // its part of long
}

// NewClient exchanges the versions. Each request may take as long as patience.
func NewClient(conn Conn, patience time.Duration) (*Client, error) {
	c := &Client{conn: conn, patience: patience}
	own := Hello{Major: Major, Minor: Minor}
	c.request(KindHello, own.Append(nil))
	body, err := c.answer(KindHello)
	if err != nil {
		return nil, err
	}
	if c.hello, err = DecodeHello(body); err != nil {
		return nil, err
	}
	if c.hello.Major != Major {
		return nil, fmt.Errorf("%w: %d.%d, and this command %d.%d", ErrVersion, c.hello.Major, c.hello.Minor, Major, Minor)
	}
	return c, nil
}

// Hello returns the program's Hello.
func (c *Client) Hello() Hello { return c.hello }

// Close closes the connection. The probes of List should be unreachable soon: other programs may
// have their memory.
func (c *Client) Close() error {
	long.Add(-c.long.Swap(0))
	return c.conn.Close()
}

// hold takes memory for a list of probes, or returns an ErrProbes.
func (c *Client) hold(size, probes int) error {
	if size <= shortList {
		return nil
	}
	memory := int64(size + perProbe*probes)
	if memory > maxList {
		return fmt.Errorf("%w: they take more than %d MB of memory", ErrProbes, maxList>>20)
	}
	if long.Add(memory-c.long.Swap(memory)) > maxLong {
		return fmt.Errorf("%w: those of all programs take more than %d MB of memory", ErrProbes, maxLong>>20)
	}
	return nil
}

// List returns the program's probes. Its error is an ErrProbes if there are too many.
func (c *Client) List() (all []*recording.Probe, err error) {
	c.request(KindList, nil)
	for size := 0; ; {
		kind, body, err := c.next(c.conn)
		switch {
		case err != nil:
			return nil, err
		case kind == KindDone:
			return all, nil
		case kind != KindProbes:
			continue // the message is of a later version
		}
		probes, err := recording.DecodeProbes(body)
		if err != nil {
			return nil, err
		}
		all, size = append(all, probes...), size+len(body)
		if err := c.hold(size, len(all)); err != nil {
			return nil, err
		}
	}
}

// Watch begins to watch. It maps and returns the memory to which the program appends the events. It
// has at most the requested size plus the size of the table of probes.
func (c *Client) Watch(w Watch) (*Memory, error) {
	c.request(KindWatch, w.Append(nil))
	r := receiver{conn: c.conn}
	defer r.close()
	body, err := c.answerFrom(&r, KindWatching)
	if err != nil {
		return nil, err
	}
	if r.file == nil {
		return nil, malformed("no descriptor of memory came with it")
	}
	watching, err := DecodeWatching(body)
	if err != nil {
		return nil, err
	}
	_ = c.conn.SetDeadline(time.Time{}) // Gone waits without a deadline
	return mapMemory(r.file, watching.Bytes, w.Bytes)
}

// End ends a watch. After it returns, the memory has all events.
func (c *Client) End() error {
	c.request(KindEnd, nil)
	_, err := c.answer(KindDone)
	return err
}

// Gone waits, after Watch, until the program closes the connection, or Interrupt is called. No
// request may be made meanwhile.
func (c *Client) Gone() error {
	_, _, err := Read(c.conn)
	if err == nil {
		return malformed("no request was sent")
	}
	return err
}

// Interrupt makes Gone return, now or later.
func (c *Client) Interrupt() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) }

// request sends a request. If that fails, the answer is read nevertheless, because it may be the
// reason why the program closed the connection.
func (c *Client) request(kind Kind, body []byte) {
	_ = c.conn.SetDeadline(time.Now().Add(c.patience))
	_, c.unsent = c.conn.Write(Append(nil, kind, body))
}

// answer reads messages until a message of a kind arrives. The kernel drops descriptors that come
// with messages that are read in this way, so this process never has them.
func (c *Client) answer(want Kind) (body []byte, err error) { return c.answerFrom(c.conn, want) }

func (c *Client) answerFrom(r io.Reader, want Kind) (body []byte, err error) {
	for {
		kind, body, err := c.next(r)
		if err != nil || kind == want {
			return body, err
		}
	}
}

// next reads the next message of an answer. An Error of the program is an *Error.
func (c *Client) next(r io.Reader) (kind Kind, body []byte, err error) {
	kind, body, err = Read(r)
	switch {
	case err != nil && c.unsent != nil:
		err = c.unsent
	case kind == KindError:
		var failure *Error
		if failure, err = DecodeError(body); err == nil {
			err = failure
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, unix.EPIPE) ||
		errors.Is(err, unix.ECONNRESET) {
		err = ErrGone
	}
	return kind, body, err
}

// receiver reads bytes, and keeps the first descriptor that comes with them.
type receiver struct {
	conn Conn
	file *os.File
}

func (r *receiver) Read(b []byte) (n int, err error) {
	raw, err := r.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	control, filled := make([]byte, 1024), 0
	waitErr := raw.Read(func(fd uintptr) (done bool) {
		for err = unix.EINTR; err == unix.EINTR; {
			n, filled, _, _, err = unix.Recvmsg(int(fd), b, control, unix.MSG_CMSG_CLOEXEC)
		}
		return err != unix.EAGAIN
	})
	if waitErr != nil {
		err = waitErr
	}
	if err != nil {
		return 0, err
	}
	for _, fd := range Descriptors(control[:filled]) {
		if r.file == nil {
			r.file = os.NewFile(uintptr(fd), "memory")
		} else {
			unix.Close(fd)
		}
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *receiver) close() {
	if r.file != nil {
		r.file.Close()
	}
}

// Descriptors returns the descriptors in the control messages of a message.
func Descriptors(control []byte) (all []int) {
	messages, _ := unix.ParseSocketControlMessage(control)
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i]) // it fails for another kind of message
		all = append(all, fds...)
	}
	return all
}

// Peer returns the process and the user at the other end of a connection, as the kernel tells them.
func Peer(c syscall.Conn) (peer *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if failed != nil {
		return nil, failed
	}
	return peer, os.NewSyscallError("getsockopt", err)
}

// Memory is the memory to which a program appends events, mapped by a watcher. It is an
// io.ReaderAt.
type Memory struct{ bytes []byte }

// tmpfs is the type of the file system of a memfd whose pages are always there.
const tmpfs = 0x01021994

// mapMemory maps a program's memory, if reading it cannot raise a signal and it takes no more
// memory than requested.
func mapMemory(file *os.File, size, asked uint64) (*Memory, error) {
	fd := int(file.Fd())
	var st unix.Stat_t
	var fs unix.Statfs_t
	// Check the seals first: the size of sealed memory cannot shrink after it was read.
	seals, sealErr := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return nil, os.NewSyscallError("fstatfs", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG || uint32(fs.Type) != tmpfs || sealErr != nil:
		return nil, malformed("its descriptor is not that of memory")
	case seals&unix.F_SEAL_SHRINK == 0:
		return nil, malformed("its memory could become shorter")
	case uint64(st.Size) < size || size == 0 || size > max(asked, 1<<20)+(2<<20):
		return nil, malformed("it has %d bytes of memory, of %d", size, st.Size)
	}
	b, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &Memory{b}, nil
}

// Size returns the size of the memory in bytes.
func (m *Memory) Size() int { return len(m.bytes) }

// ReadAt implements io.ReaderAt.
func (m *Memory) ReadAt(b []byte, offset int64) (n int, err error) {
	if offset < 0 || offset >= int64(len(m.bytes)) {
		return 0, io.EOF
	}
	if n = barrier.Copy(b, m.bytes[offset:]); n < len(b) {
		err = io.EOF
	}
	return n, err
}

// Close unmaps the memory. It must not be read afterwards.
func (m *Memory) Close() {
	_ = unix.Munmap(m.bytes)
	m.bytes = nil
}
