//go:build linux

package child

import (
	"os"
	"sync"
	"syscall"
)

// end is an end of a connection that is relayed.
type end struct {
	file *os.File
	raw  syscall.RawConn
}

// newEnd returns the end with a descriptor, which it takes over.
func newEnd(fd int) *end {
	_ = syscall.SetNonblock(fd, true)
	file := os.NewFile(uintptr(fd), "end")
	raw, _ := file.SyscallConn() // fails only without a file
	return &end{file, raw}
}

// receive waits for a message, and receives it.
func (e *end) receive(b, control []byte) (n int, fds []int, err error) {
	waitErr := e.raw.Read(func(fd uintptr) bool {
		n, fds, err = receive(int(fd), b, control)
		return err != syscall.EAGAIN
	})
	if waitErr != nil {
		return 0, nil, waitErr
	}
	return n, fds, err
}

// send sends all bytes, the first with descriptors.
func (e *end) send(b, rights []byte) (err error) {
	waitErr := e.raw.Write(func(fd uintptr) bool {
		err = nil
		for err == nil && len(b) > 0 {
			var n int
			n, err = syscall.SendmsgN(int(fd), b, rights, nil, syscall.MSG_NOSIGNAL)
			switch err {
			case nil:
				b, rights = b[n:], nil
			case syscall.EINTR:
				err = nil
			}
		}
		return err != syscall.EAGAIN
	})
	if waitErr != nil {
		return waitErr
	}
	return err
}

// shut ends the connection, but does not close the descriptor.
func (e *end) shut() {
	_ = e.raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
}

// serveRelays relays connections until there are no more requests. Then it ends them, because the
// process that made the requests has ended.
func serveRelays() {
	requests := newEnd(Requests)
	over := make(chan struct{})
	var all sync.WaitGroup
	for {
		n, fds, err := requests.receive(make([]byte, 1), ControlBuffer())
		if err != nil || n == 0 {
			break
		}
		if len(fds) == 2 {
			all.Go(func() { relay(newEnd(fds[0]), newEnd(fds[1]), over) })
			continue
		}
		for _, fd := range fds { // this process has no descriptors left
			closings.add(func() { syscall.Close(fd) })
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

// relay relays between the ends of two connections until one of them ends, or until over. The
// program then knows that it is no longer watched, even if the descriptors that it has sent cannot
// be closed.
func relay(program, watcher *end, over <-chan struct{}) {
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
	program.shut()
	watcher.shut()
	go func() {
		<-passed
		<-passed
		watcher.file.Close()
		closings.add(func() { program.file.Close() })
	}()
}

// getSeals is F_GET_SEALS of fcntl(2), which package syscall lacks.
const getSeals = 1034

// pass forwards the data that arrives, with the descriptor of a memfd, until a connection ends.
// whole reports whether everything was forwarded. It ends a connection that sends other
// descriptors. Reading the seals of a memfd and closing it involve no other file system; closing
// any other descriptor can take forever.
func pass(to, from *end) (whole bool) {
	b, control := make([]byte, 16<<10), ControlBuffer()
	for {
		n, fds, err := from.receive(b, control)
		var rights []byte
		fits := len(fds) <= 1
		for _, fd := range fds {
			_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), getSeals, 0)
			if errno != 0 {
				fits = false
			} else if rights == nil {
				rights = syscall.UnixRights(fd)
			}
		}
		whole = err != nil || n == 0
		if err == nil {
			err = to.send(b[:n], rights)
		}
		for _, fd := range fds {
			if fits {
				syscall.Close(fd)
			} else {
				closings.add(func() { syscall.Close(fd) })
			}
		}
		if err != nil || n == 0 || !fits {
			return whole
		}
	}
}
