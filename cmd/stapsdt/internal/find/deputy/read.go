//go:build linux

package deputy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"golang.org/x/sys/unix"
)

// reader is a child that reads for this process, one request after another.
type reader struct {
	conn *net.UnixConn
	pid  int
	// used is held while a goroutine waits for an answer.
	used sync.Mutex
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
		conn, pid, err := start("read")
		if err != nil {
			return nil, err
		}
		current = &reader{conn: conn, pid: pid}
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

// A request reads from the descriptor that comes with it. An answer is an errno and the bytes
// that were read.
type request struct {
	Offset int64
	Size   uint32
}

const (
	headBytes = 4
	// maxBytes is the maximum number of bytes that a request reads.
	maxBytes = 16 << 10

	// patience is the time that a child may take to start and to answer.
	patience = 5 * stall.Patience
	// hurry is the patience with users whose memory has exhausted it before.
	hurry = patience / 20
)

// errEnded means that the reader has ended, not necessarily because of the memory that it
// read.
var errEnded = errors.New("the child process that reads files has ended")

// read lets the reader read at an offset of a file. The error is stall.Err if the reader has not
// answered and was abandoned.
func read(file *os.File, b []byte, offset int64, patience time.Duration) (n int, err error) {
	r, err := take()
	if err != nil {
		return 0, err
	}
	defer r.used.Unlock()
	b = b[:min(len(b), maxBytes)]
	out, _ := binary.Append(nil, binary.NativeEndian, request{offset, uint32(len(b))})
	answer, err := stall.Within(patience, r, func() (answer []byte, err error) {
		rights := unix.UnixRights(int(file.Fd()))
		if _, _, err = r.conn.WriteMsgUnix(out, rights, nil); err != nil {
			return nil, err
		}
		answer = make([]byte, headBytes+maxBytes)
		n, err := r.conn.Read(answer)
		return answer[:max(n, 0)], err
	}, nil)
	if err != nil || len(answer) < headBytes {
		r.leave()
		if !errors.Is(err, stall.Err) {
			err = fmt.Errorf("%w: %v", errEnded, err)
		}
		return 0, err
	}
	n = copy(b, answer[headBytes:])
	if errno := binary.NativeEndian.Uint32(answer); errno != 0 {
		return n, unix.Errno(errno)
	}
	return n, nil
}

// serveReads answers requests until the connection ends.
func serveReads(requests *net.UnixConn) {
	in, control := make([]byte, binary.Size(request{})), controlBuffer()
	for {
		n, filled, _, _, err := requests.ReadMsgUnix(in, control)
		fds := wire.Descriptors(control[:max(filled, 0)])
		if err != nil || n < len(in) || len(fds) != 1 {
			return
		}
		var r request
		_, _ = binary.Decode(in, binary.NativeEndian, &r)
		answer := make([]byte, headBytes+min(r.Size, maxBytes))
		n, err = unix.Pread(fds[0], answer[headBytes:], r.Offset)
		if errno, ok := err.(unix.Errno); ok {
			binary.NativeEndian.PutUint32(answer, uint32(errno))
		}
		unix.Close(fds[0])
		if _, err := requests.Write(answer[:headBytes+max(n, 0)]); err != nil {
			return
		}
	}
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
