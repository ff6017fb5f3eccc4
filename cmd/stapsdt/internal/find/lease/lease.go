//go:build linux

// Package lease keeps files from being changed while something is attached to them.
//
// A breakpoint belongs to an offset of a file. If the file is overwritten, the kernel puts the
// breakpoint at this offset of the next process, in the middle of whatever is there by then. A
// read lease (F_SETLEASE in fcntl(2)) prevents that: an open for writing waits until the lease
// is released, which happens after everything has been detached. A lease requires a file of the
// same user, or CAP_LEASE, and a file system that has leases.
package lease

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrWritten means that a file is open for writing, so that there is no lease on it.
var ErrWritten = errors.New("the file is open for writing")

// ErrBroken means that a file is being changed, or may have been.
var ErrBroken = errors.New("the file is being changed")

// Leases releases a lease at once when the kernel demands it, no matter what else the program is
// doing. Any goroutine may call its methods.
type Leases struct {
	// Broken has an element if a lease was broken since the last receive.
	Broken  chan struct{}
	signals chan os.Signal
	closing chan struct{} // has an element for each attachment that a broken lease is closing

	mu   sync.Mutex
	held map[*Lease]bool
}

// maxClosing bounds the threads that close attachments of broken leases, because each waits in the
// kernel.
const maxClosing = 64

// New returns Leases that listen to the kernel until Close.
func New() *Leases {
	l := &Leases{
		Broken: make(chan struct{}, 1), signals: make(chan os.Signal, 1),
		closing: make(chan struct{}, maxClosing), held: map[*Lease]bool{},
	}
	signal.Notify(l.signals, unix.SIGIO)
	go l.listen()
	return l
}

// Close stops listening. The leases must have been released.
func (l *Leases) Close() {
	signal.Stop(l.signals)
	close(l.signals)
}

// listen breaks the leases that the kernel demands. One signal can stand for several leases, so it
// checks all.
func (l *Leases) listen() {
	for range l.signals {
		l.mu.Lock()
		for lease := range l.held {
			if lease.demanded() {
				go l.give(lease)
			}
		}
		l.mu.Unlock()
	}
}

// give breaks a lease that the kernel demands.
func (l *Leases) give(lease *Lease) {
	lease.Break()
	select {
	case l.Broken <- struct{}{}:
	default:
	}
}

// Without returns a Lease on a file for which the kernel has none, and which does not hold
// writers back.
func (l *Leases) Without(file *os.File) *Lease {
	return &Lease{leases: l, file: file, attached: map[*Attachment]bool{}}
}

// Take takes a lease on a file. The error is ErrWritten, or the reason why there are no leases
// on the file. The Lease can then be used nevertheless, but nothing holds writers back.
func (l *Leases) Take(file *os.File) (*Lease, error) {
	lease := l.Without(file)
	// Without an owner, the signal goes to this thread, which may have ended by then.
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETOWN, os.Getpid()); err != nil {
		return lease, os.NewSyscallError("fcntl", err)
	}
	_, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == unix.EAGAIN {
		return lease, ErrWritten
	}
	if err != nil {
		return lease, os.NewSyscallError("fcntl", err)
	}
	lease.held = true
	l.mu.Lock()
	l.held[lease] = true
	l.mu.Unlock()
	if lease.demanded() { // it may have been broken before listen could find it
		lease.Break()
	}
	return lease, nil
}

// Lease is a lease on a file, with the attachments to the file. To attach something, call Hold,
// pass the links to Keep, and call Let. A nil Lease holds no writers back, and is never broken.
type Lease struct {
	leases *Leases
	file   *os.File
	held   bool // the kernel makes writers wait until the lease is broken
	broken atomic.Bool

	attaching sync.Mutex // locked from Hold to Let
	mu        sync.Mutex // guards attached
	attached  map[*Attachment]bool

	late int  // calls of Delay that have not ended; like owed, guarded by the mu of leases
	owed bool // the lease was released while there were such calls
}

// Attachment is something that is attached to a file, until it is closed or the lease is broken.
type Attachment struct {
	lease *Lease
	once  sync.Once
	links io.Closer
	err   error
}

// Held reports whether the kernel keeps others from writing to the file unless the lease is
// broken.
func (l *Lease) Held() bool { return l.held }

// Broken reports whether the lease was broken. It stays broken.
func (l *Lease) Broken() bool { return l.broken.Load() }

// Hold keeps the lease from being broken until Let. The error is ErrBroken if it was broken
// already.
func (l *Lease) Hold() error {
	if l == nil {
		return nil
	}
	l.attaching.Lock()
	if l.Broken() {
		l.attaching.Unlock()
		return ErrBroken
	}
	return nil
}

// Let ends Hold.
func (l *Lease) Let() {
	if l != nil {
		l.attaching.Unlock()
	}
}

// Keep returns an Attachment that closes links once. The lease must be held. When it is broken, it
// closes the links too.
func (l *Lease) Keep(links io.Closer) *Attachment {
	a := &Attachment{lease: l, links: links}
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.attached[a] = true
	}
	return a
}

// Close closes the links. It may be called again, and by several goroutines.
func (a *Attachment) Close() error {
	a.detach()
	if l := a.lease; l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.attached, a)
	}
	return a.err
}

func (a *Attachment) detach() { a.once.Do(func() { a.err = a.links.Close() }) }

// Break detaches everything from the file, and lets waiting writers continue.
func (l *Lease) Break() {
	l.broken.Store(true)
	l.attaching.Lock()
	defer l.attaching.Unlock()
	l.mu.Lock()
	attached := l.attached
	l.attached = nil
	l.mu.Unlock()
	var all sync.WaitGroup
	for a := range attached {
		l.leases.closing <- struct{}{}
		all.Go(func() {
			a.detach()
			<-l.leases.closing
		})
	}
	all.Wait()
	l.Release()
}

// Release gives the lease up, or lets the end of the last Delay do so. It must be called before the
// file is closed.
func (l *Lease) Release() {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	if !l.leases.held[l] {
		return
	}
	delete(l.leases.held, l)
	if l.owed = l.late > 0; !l.owed {
		unlock(l.file)
	}
}

// Delay keeps the lease from being given up before end is called, even if it is broken: the kernel
// may attach something for longer than the caller waits. same is a duplicate of the leased file's
// descriptor, and stays open until end. The error is ErrBroken.
func (l *Lease) Delay(same *os.File) (end func(), err error) {
	if l == nil {
		return func() {}, nil
	}
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	if l.Broken() { // Break sets it before Release, which takes the lock too
		return nil, ErrBroken
	}
	l.late++
	return func() {
		l.leases.mu.Lock()
		defer l.leases.mu.Unlock()
		if l.late--; l.late == 0 && l.owed {
			unlock(same)
		}
	}, nil
}

func unlock(file *os.File) { _, _ = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK) }

// demanded reports whether the kernel demands the lease back.
func (l *Lease) demanded() bool {
	kind, err := unix.FcntlInt(l.file.Fd(), unix.F_GETLEASE, 0)
	return err != nil || kind != unix.F_RDLCK
}
