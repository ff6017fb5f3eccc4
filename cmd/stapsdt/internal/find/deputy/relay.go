//go:build linux

package deputy

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/deputy/child"

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
		requests, err := start(child.Relay)
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
