//go:build linux

package deputy

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/wire"

	"golang.org/x/sys/unix"
)

// relays holds the connections to the children that relay, by the owners of the programs: a
// program that makes a child wait affects only the programs of its owner.
var relays = struct {
	sync.Mutex
	requests map[any]*net.UnixConn
}{requests: map[any]*net.UnixConn{}}

// Relay relays one connection with a program. The descriptors that a program sends are closed by
// the process that reads them, and unread descriptors by the process that closes the connection
// last. Here, this is a child. It forwards all bytes, and the descriptor of a memfd.
type Relay struct {
	owner             any
	requests, watcher *net.UnixConn
	its               *os.File
}

// NewRelay prepares a relay for a connection that will be made with a program of an owner.
func NewRelay(owner any) (*Relay, error) {
	watcher, its, err := pair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	r := &Relay{owner: owner, watcher: watcher, its: its}
	relays.Lock()
	defer relays.Unlock()
	if relays.requests[owner] == nil {
		requests, _, err := start("relay")
		if err != nil {
			r.Close()
			return nil, err
		}
		relays.requests[owner] = requests
	}
	r.requests = relays.requests[owner]
	return r, nil
}

// Take takes over the connection, and returns a connection to use in its place.
func (r *Relay) Take(program *net.UnixConn) (watcher *net.UnixConn, err error) {
	defer program.Close()
	defer r.its.Close()
	raw, err := program.SyscallConn()
	if err == nil {
		controlErr := raw.Control(func(fd uintptr) { err = r.hand(int(fd)) })
		if err == nil {
			err = controlErr
		}
	}
	if err != nil {
		r.watcher.Close()
		return nil, err
	}
	return r.watcher, nil
}

// Close closes a relay that was not needed.
func (r *Relay) Close() {
	r.watcher.Close()
	r.its.Close()
}

// hand hands two ends to the child.
func (r *Relay) hand(program int) error {
	relays.Lock()
	defer relays.Unlock()
	_ = r.requests.SetWriteDeadline(time.Now().Add(patience))
	rights := unix.UnixRights(program, int(r.its.Fd()))
	_, _, err := r.requests.WriteMsgUnix([]byte{0}, rights, nil)
	hasEnded := errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)
	if hasEnded && relays.requests[r.owner] == r.requests {
		delete(relays.requests, r.owner)
		r.requests.Close()
	}
	return err
}

// serveRelays relays connections until there are no more requests. Then it ends them, because the
// process that made the requests has ended.
func serveRelays(requests *net.UnixConn) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for {
		control := controlBuffer()
		n, filled, _, _, err := requests.ReadMsgUnix(make([]byte, 1), control)
		if err != nil || n == 0 {
			break
		}
		ends := connections(wire.Descriptors(control[:filled]))
		if len(ends) == 2 {
			all.Go(func() { relay(ends[0], ends[1], over) })
			continue
		}
		for _, end := range ends { // this process has no descriptors left
			closings.add(func() { end.Close() })
		}
	}
	close(over)
	all.Wait()
}

// closings holds the descriptors to close. They are closed one at a time, because a close
// can take forever.
var closings queue

type queue struct {
	mu    sync.Mutex
	all   []func()
	works bool
}

func (q *queue) add(one func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all = append(q.all, one); !q.works {
		q.works = true
		go q.work()
	}
}

func (q *queue) work() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.all) > 0 {
		one := q.all[0]
		q.all = q.all[1:]
		q.mu.Unlock()
		one()
		q.mu.Lock()
	}
	q.works = false
}

// connections returns connections of descriptors, which it closes.
func connections(fds []int) (all []*net.UnixConn) {
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		if conn, err := net.FileConn(file); err == nil {
			all = append(all, conn.(*net.UnixConn))
		}
		closings.add(func() { file.Close() })
	}
	return all
}

// relay relays between the ends of two connections until one of them ends, or until over. The
// program then knows that it is no longer watched, even if the descriptors that it has sent cannot
// be closed.
func relay(program, watcher *net.UnixConn, over <-chan struct{}) {
	passed, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	go func() {
		pass(watcher, program)
		ended <- struct{}{}
		passed <- struct{}{}
	}()
	go func() {
		// A program that closes the connection may have sent the reason before.
		if whole := pass(program, watcher); whole {
			ended <- struct{}{}
		}
		passed <- struct{}{}
	}()
	select {
	case <-ended:
	case <-over:
	}
	for _, end := range []*net.UnixConn{program, watcher} {
		_ = end.CloseRead()
		_ = end.CloseWrite()
	}
	go func() {
		<-passed
		<-passed
		watcher.Close()
		closings.add(func() { program.Close() })
	}()
}

// pass forwards the data that arrives, with the descriptor of a memfd, until a connection ends.
// whole reports whether everything was forwarded. It ends a connection that sends other
// descriptors. Reading the seals of a memfd and closing it involve no other file system; closing
// any other descriptor can take forever.
func pass(to, from *net.UnixConn) (whole bool) {
	b, control := make([]byte, 16<<10), controlBuffer()
	for {
		n, filled, _, _, err := from.ReadMsgUnix(b, control)
		var rights []byte
		fds := wire.Descriptors(control[:max(filled, 0)])
		fits := len(fds) <= 1
		for _, fd := range fds {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil {
				fits = false
			} else if rights == nil {
				rights = unix.UnixRights(fd)
			}
		}
		whole = err != nil || n <= 0
		for sent := 0; err == nil && sent < n; rights = nil {
			var more int
			more, _, err = to.WriteMsgUnix(b[sent:n], rights, nil)
			sent += more
		}
		for _, fd := range fds {
			if fits {
				unix.Close(fd)
			} else {
				closings.add(func() { unix.Close(fd) })
			}
		}
		if err != nil || n <= 0 || !fits {
			return whole
		}
	}
}

// controlBuffer returns a buffer for all descriptors that a message can have.
func controlBuffer() []byte { return make([]byte, unix.CmsgSpace(4*253)) }
