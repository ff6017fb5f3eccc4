//go:build linux

package deputy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/deputy/child"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"

	"golang.org/x/sys/unix"
)

// reader is a child that reads for this process, one request after another.
type reader struct {
	conn *net.UnixConn
	// used is held while a goroutine waits for an answer.
	used  sync.Mutex
	began bool // the child has started
}

var (
	mu      sync.Mutex
	current *reader
	// slow holds the users whose memory did not answer in time.
	slow = map[uint32]bool{}
)

// take returns the current reader with its mutex held. It starts a reader if there is
// none.
func take() (*reader, error) {
	for {
		r, err := present()
		if err != nil {
			return nil, err
		}
		r.used.Lock() // without mu, which leave needs
		mu.Lock()
		same := r == current
		mu.Unlock()
		if same {
			return r, nil
		}
		r.used.Unlock()
	}
}

func present() (*reader, error) {
	mu.Lock()
	defer mu.Unlock()
	if current == nil {
		conn, err := start(child.Read)
		if err != nil {
			return nil, err
		}
		current = &reader{conn: conn}
	}
	return current, nil
}

// leave abandons a reader, which ends as soon as it can.
func (r *reader) leave() {
	r.conn.Close()
	mu.Lock()
	defer mu.Unlock()
	if current == r {
		current = nil
	}
}

// receive waits for a message with at most size bytes.
func (r *reader) receive(size int) ([]byte, error) {
	b := make([]byte, size)
	n, err := r.conn.Read(b)
	return b[:max(n, 0)], err
}

const (
	// patience is the time that a child may take to start and to answer.
	patience = 5 * stall.Patience
	// hurry is the patience with users whose memory has exhausted it before.
	hurry = patience / 20
)

// errEnded means that the reader has ended, not necessarily because of the memory that it
// read.
var errEnded = errors.New("the child process that reads files has ended")

// read lets the reader read at an offset of a file. The error is stall.Err if the reader has not
// answered within a limit and was abandoned. Its start does not count.
func read(file *os.File, b []byte, offset int64, limit time.Duration) (n int, err error) {
	r, err := take()
	if err != nil {
		return 0, err
	}
	defer r.used.Unlock()
	b = b[:min(len(b), child.MaxBytes)]
	out := child.Request{Offset: offset, Size: len(b)}.Append(nil)
	if !r.began {
		_, err = stall.Within(patience, r, func() ([]byte, error) { return r.receive(1) }, nil)
		r.began = err == nil
	}
	var answer []byte
	if r.began {
		answer, err = stall.Within(limit, r, func() ([]byte, error) {
			rights := unix.UnixRights(int(file.Fd()))
			if _, _, err := r.conn.WriteMsgUnix(out, rights, nil); err != nil {
				return nil, err
			}
			return r.receive(child.HeadBytes + len(b))
		}, nil)
	}
	if err != nil || len(answer) < child.HeadBytes {
		r.leave()
		if !r.began || !errors.Is(err, stall.Err) {
			err = fmt.Errorf("%w: %v", errEnded, err)
		}
		return 0, err
	}
	n = copy(b, answer[child.HeadBytes:])
	if errno := child.Errno(answer); errno != 0 {
		return n, errno
	}
	return n, nil
}

// Reader reads the memory of a process, /proc/PID/mem.
type Reader struct{ *os.File }

// ReadAt implements io.ReaderAt. The error is stall.Err if the memory does not answer. After that,
// ReadAt waits for less time for the memory of the same user, who is root if the process hides its
// own user.
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
		count, err := read(r.File, b[n:], offset+int64(n), limit)
		n += count
		if errors.Is(err, stall.Err) {
			mu.Lock()
			slow[st.Uid] = true
			mu.Unlock()
		}
		if err != nil {
			return n, err
		}
		if count == 0 {
			return n, io.EOF
		}
	}
	return n, nil
}
