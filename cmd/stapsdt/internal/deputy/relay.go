//go:build linux

package deputy

import (
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/wire"

	"golang.org/x/sys/unix"
)

// relays are requests to the child that relays connections, or nil if there is none.
var relays struct {
	sync.Mutex
	requests *net.UnixConn
}

// Relay takes over a connection with a program, and returns one that stands for it. The descriptors
// that a program sends are closed by who reads them, and those that nobody has read by who closes
// the connection last. That is a child here. It passes on all bytes, and the descriptors of memfds.
func Relay(program *net.UnixConn) (watcher *net.UnixConn, err error) {
	defer program.Close()
	watcher, its, err := pair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer its.Close()
	raw, err := program.SyscallConn()
	if err == nil {
		controlErr := raw.Control(func(fd uintptr) { err = hand(int(fd), int(its.Fd())) })
		if err == nil {
			err = controlErr
		}
	}
	if err != nil {
		watcher.Close()
		return nil, err
	}
	return watcher, nil
}

// hand hands two ends to the child, which it starts if there is none.
func hand(program, watcher int) (err error) {
	relays.Lock()
	defer relays.Unlock()
	for range 2 { // the child may have ended, perhaps through nobody's fault
		if relays.requests == nil {
			if relays.requests, _, err = start("relay"); err != nil {
				return err
			}
		}
		_ = relays.requests.SetWriteDeadline(time.Now().Add(patience))
		_, _, err = relays.requests.WriteMsgUnix([]byte{0}, unix.UnixRights(program, watcher), nil)
		if err == nil {
			return nil
		}
		relays.requests.Close()
		relays.requests = nil
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
			go end.Close()
		}
	}
	close(over)
	all.Wait()
}

// connections returns connections of descriptors, which it closes.
func connections(fds []int) (all []*net.UnixConn) {
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		if conn, err := net.FileConn(file); err == nil {
			all = append(all, conn.(*net.UnixConn))
		}
		file.Close()
	}
	return all
}

// relay relays between the ends of two connections until one of them ends, or until over. Then the
// program knows that it is watched no longer, even if what it has sent cannot be closed.
func relay(program, watcher *net.UnixConn, over <-chan struct{}) {
	passed := make(chan struct{}, 2)
	for to, from := range map[*net.UnixConn]*net.UnixConn{program: watcher, watcher: program} {
		go func() {
			pass(to, from)
			passed <- struct{}{}
		}()
	}
	ended := 0
	select {
	case <-passed:
		ended = 1
	case <-over:
	}
	for _, end := range []*net.UnixConn{program, watcher} {
		_ = end.CloseRead()
		_ = end.CloseWrite()
	}
	go func() {
		for ; ended < 2; ended++ {
			<-passed
		}
		watcher.Close()
		program.Close()
	}()
}

// pass passes on what arrives, with the first descriptor of a memfd, until a connection ends.
// Neither the seals nor the close of a memfd ask a file system. To close another descriptor can
// take for ever, so that comes last.
func pass(to, from *net.UnixConn) {
	b, control := make([]byte, 16<<10), controlBuffer()
	for {
		n, filled, _, _, err := from.ReadMsgUnix(b, control)
		var rights []byte
		fds := wire.Descriptors(control[:max(filled, 0)])
		for _, fd := range fds {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err == nil {
				rights = unix.UnixRights(fd)
				break
			}
		}
		if err == nil && n > 0 {
			_, _, err = to.WriteMsgUnix(b[:n], rights, nil)
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
		if err != nil || n <= 0 {
			return
		}
	}
}

// controlBuffer returns a buffer for all descriptors that a message can have.
func controlBuffer() []byte { return make([]byte, unix.CmsgSpace(4*253)) }
