// Package fusetest has a FUSE file system whose server is the test.
package fusetest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"golang.org/x/sys/unix"
)

// The operations of linux/fuse.h that the server answers, and those that would change what is in the file system.
const (
	lookup, forget, getattr, mknod, mkdir, open, read = 1, 2, 3, 8, 9, 14, 15
	statfs, release, start, opendir, releasedir       = 17, 18, 26, 27, 29
	access, create, poll, tmpfile                     = 34, 35, 40, 51
)

// FS is a file system with at most one file, which is called file. Its server may hang.
type FS struct {
	Dir  string
	Hung atomic.Bool // nothing is answered
	Mute atomic.Bool // statfs is not answered
	Held atomic.Bool // requests are taken and not answered, so that not even SIGKILL ends their wait

	fd   int
	file atomic.Pointer[served]
	over chan struct{} // closed at the end of the test

	mu    sync.Mutex
	asked []uint32
}

// served is what the file has, since a time in seconds.
type served struct {
	contents []byte
	since    uint64
}

// Serve replaces the contents of the file, as a server does for a client on another machine.
func (fs *FS) Serve(contents []byte) {
	next := &served{contents: contents, since: 1}
	if before := fs.file.Load(); before != nil {
		next.since = before.since + 1
	}
	fs.file.Store(next)
}

// Mount mounts a file system without a file until the end of the test.
func Mount(t testing.TB) *FS {
	t.Helper()
	return MountAs(t, 0)
}

// MountAs is Mount for a user who has mounted it.
func MountAs(t testing.TB, user int) *FS {
	t.Helper()
	testenv.NotEmulated(t, "the kernel speaks to a server in its own byte order")
	testenv.NeedsRoot(t)
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	testenv.NeedsMachine(t, "/dev/fuse", err, unix.ENOENT, unix.ENODEV, unix.ENXIO)
	fs := &FS{Dir: t.TempDir(), fd: fd, over: make(chan struct{})}
	err = unix.Mount("stapsdt", fs.Dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=0,allow_other", fd, user))
	if err != nil {
		unix.Close(fd)
		testenv.Needs(t, "the right to mount", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fs.serve()
	}()
	t.Cleanup(func() {
		close(fs.over)
		if err := unix.Unmount(fs.Dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		unix.Close(fd) // what still waits fails
		<-done
	})
	return fs
}

// Abort lets all requests fail. The file must be open.
func (fs *FS) Abort() { _ = unix.Unmount(fs.Dir, unix.MNT_FORCE) }

// Touched reports whether the server was asked for a file or for a new directory.
func (fs *FS) Touched() bool { return fs.was(mknod, mkdir, open, create, tmpfile) }

// Listed reports whether the server was asked for the directory.
func (fs *FS) Listed() bool { return fs.was(opendir) }

// Polled reports whether the server was asked whether it is possible to wait for the file, as os.Open does. A test must not do that
// itself: the thread that asks stops the garbage collector, which stops the server.
func (fs *FS) Polled() bool { return fs.was(poll) }

// was reports whether the server was asked for one of some operations.
func (fs *FS) was(operations ...uint32) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.ContainsFunc(fs.asked, func(op uint32) bool { return slices.Contains(operations, op) })
}

// serve answers until the file system is unmounted, or it hangs.
func (fs *FS) serve() {
	request := make([]byte, 1<<20)
	for {
		polled := []unix.PollFd{{Fd: int32(fs.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(polled, 10)
		select {
		case <-fs.over:
			return
		default:
		}
		if n <= 0 || err != nil || fs.Hung.Load() {
			continue
		}
		if n, err = unix.Read(fs.fd, request); err != nil || n < 40 {
			continue
		}
		op := binary.NativeEndian.Uint32(request[4:])
		fs.mu.Lock()
		fs.asked = append(fs.asked, op)
		fs.mu.Unlock()
		if op == forget || fs.Held.Load() {
			continue
		}
		body, failed := fs.answer(op, binary.NativeEndian.Uint64(request[16:]), request[40:n])
		reply := make([]byte, 16, 16+len(body))
		binary.NativeEndian.PutUint32(reply, uint32(16+len(body)))
		binary.NativeEndian.PutUint32(reply[4:], uint32(-int32(failed)))
		copy(reply[8:16], request[8:16]) // which request it is
		unix.Write(fs.fd, append(reply, body...))
	}
}

// answer returns the body of an answer, or an error: see linux/fuse.h. It takes no flush, as servers of
// file systems that are only read: otherwise the kernel lets each process wait for one when it exits.
func (fs *FS) answer(op uint32, inode uint64, in []byte) (body []byte, failed unix.Errno) {
	file := fs.file.Load()
	attributes := func(inode uint64) []byte { // valid for no time
		a := make([]byte, 88)
		binary.NativeEndian.PutUint64(a, inode)
		mode, links := uint32(unix.S_IFDIR|0o755), uint32(2)
		if inode == 2 {
			mode, links = unix.S_IFREG|0o755, 1
			binary.NativeEndian.PutUint64(a[8:], uint64(len(file.contents)))
			binary.NativeEndian.PutUint64(a[32:], file.since) // when it was written
		}
		binary.NativeEndian.PutUint32(a[60:], mode)
		binary.NativeEndian.PutUint32(a[64:], links)
		return a
	}
	switch op {
	case start: // version 7.31, which has 64 bytes
		body = make([]byte, 64)
		binary.NativeEndian.PutUint32(body, 7)
		binary.NativeEndian.PutUint32(body[4:], 31)
		binary.NativeEndian.PutUint32(body[20:], 1<<16)
		return body, 0
	case lookup:
		if file == nil || string(in) != "file\x00" {
			return nil, unix.ENOENT
		}
		body = make([]byte, 40)
		binary.NativeEndian.PutUint64(body, 2)
		return append(body, attributes(2)...), 0
	case getattr:
		return append(make([]byte, 16), attributes(inode)...), 0
	case open, opendir:
		return make([]byte, 16), 0
	case read:
		from := min(binary.NativeEndian.Uint64(in[8:]), uint64(len(file.contents)))
		to := min(from+uint64(binary.NativeEndian.Uint32(in[16:])), uint64(len(file.contents)))
		return file.contents[from:to], 0
	case statfs:
		if !fs.Mute.Load() {
			return make([]byte, 80), 0
		}
	case release, releasedir, access:
		return nil, 0
	}
	return nil, unix.ENOSYS
}
