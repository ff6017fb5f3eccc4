package probesock

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/descriptor"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
	"github.com/go-stapsdt/stapsdt/internal/region"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"golang.org/x/sys/unix"
)

const (
	// maxConnections is the maximum number of processes that are connected at a time. Others get an
	// error, and are disconnected.
	maxConnections = 32
	// acceptPause is the time for which the listener rests after it could not accept a connection,
	// for example without free descriptors.
	acceptPause = 100 * time.Millisecond
	// endPause is the minimum time between the ends of two watches.
	endPause = 10 * time.Millisecond
	// maxAddress is the maximum length of the address of a socket.
	maxAddress = 107
	// staleAge is the minimum age of a socket that is removed as stale: another process may have
	// just made a younger one. staleTicks is the same in the ticks of start times.
	staleAge   = time.Minute
	staleTicks = 60 * 100
	// maxWatchers is the maximum number of connections that watch at a time, maxRing the maximum
	// bytes of chunks of each, and minChunks the minimum number of chunks. maxMemory is the maximum
	// memory of all connections, and maxUnknown the same if the process may have a limit that it
	// does not see.
	maxWatchers = 8
	maxRing     = 64 << 20
	minChunks   = 4
	maxMemory   = 128 << 20
	maxUnknown  = 8 << 20
)

// listener serves the watchers of this process.
type listener struct {
	socket *os.File
	path   string
	hello  wire.Hello
	head   recording.Head // the part that the heads of all recordings have in common

	mu          sync.Mutex // guards the following fields; a connection's lock may be held
	closed      bool
	connections map[*connection]bool
	watchers    int
	memory      int64 // the memory of all watchers
	served      sync.WaitGroup

	resting sync.Mutex // guards ended
	// ended is when a watch ended last, by package clock. (A time.Time would bring time zones and
	// formats to every program.)
	ended time.Duration
}

// only is the listener of this process.
var only struct {
	sync.Mutex
	*listener
	own bool // the program itself has called Listen
	// environment is what FromEnvironment has returned, or nil.
	environment *listener
}

var (
	errListens = errors.New("this process listens already")
	errNoStart = errors.New("/proc/self/stat cannot be read, but watchers find a process by its start time, which is there: mount /proc")
)

// listen listens for the program itself, or for its environment, which gets what it has got before.
func listen(own bool) (*listener, error) {
	only.Lock()
	defer only.Unlock()
	switch {
	case !own && (only.own || only.environment != nil):
		return only.environment, nil
	case only.listener != nil && only.own:
		return nil, errListens
	case only.listener != nil:
		only.own = true
		return only.listener, nil
	}
	if err := region.StartPoller(); err != nil {
		return nil, err
	}
	recorder.Prepare() // now: later, the process may be unable to create threads
	l := &listener{
		connections: map[*connection]bool{},
		head:        recording.Head{PID: uint32(os.Getpid())},
	}
	recordfile.Describe(&l.head)
	if l.head.Start == 0 {
		return nil, errNoStart
	}
	l.hello = wire.Hello{Major: wire.Major, Minor: wire.Minor, PID: l.head.PID, Start: l.head.Start}
	if err := region.InDirectory(l.open); err != nil {
		return nil, withRemedy(err)
	}
	l.served.Go(func() {
		l.tidy()
		l.accept()
	})
	only.listener, only.own = l, own
	if !own {
		only.environment = l
	}
	return l, nil
}

// withRemedy adds the remedy to the error of a process that cannot make a directory or a socket.
func withRemedy(err error) error {
	for _, reason := range []error{os.ErrNotExist, os.ErrPermission, unix.EROFS} {
		if errors.Is(err, reason) {
			return fmt.Errorf("%w: mount a writable volume, and let STAPSDT_DIR name a directory in it, such as VOLUME/stapsdt", err)
		}
	}
	return err
}

// open opens the socket in a directory.
func (l *listener) open(dir string, fd int) error {
	var socket *os.File
	var at string
	for n := 1; socket == nil; n++ {
		name := wire.SocketName(l.hello.PID, l.hello.Start, n)
		at = path.Join(dir, name)
		address := address(dir, fd, name)
		var err error
		socket, err = listenAt(address)
		switch {
		case !errors.Is(err, unix.EADDRINUSE):
		case !listens(address): // this process left it before it executed this program
			_ = os.Remove(at)
			socket, err = listenAt(address)
		case n < wire.MaxNamesakes:
			// a process of another PID namespace, as in another container, shares the directory
			continue
		}
		if err != nil {
			return err
		}
	}
	if err := protect(at); err != nil {
		socket.Close()
		_ = os.Remove(at)
		return err
	}
	l.socket, l.path = socket, at
	return nil
}

// protect admits only this user to a socket, and sets the sticky bit, which protects it from
// programs that clean directories by age (systemd's tmpfiles.d(5)): these know the sockets of their
// own namespaces only. If the bit cannot be set, this is no reason to fail.
func protect(at string) error {
	if os.Chmod(at, 0o600|os.ModeSticky) == nil {
		return nil
	}
	return os.Chmod(at, 0o600)
}

// listens reports whether a process listens on a socket. A process that has just made the socket
// will listen in a moment.
func listens(address string) bool {
	for range 10 {
		if !wire.Refuses(address) {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// address returns the address of a socket in a directory. It may have 107 bytes, so a longer path
// begins with the directory's descriptor.
func address(dir string, fd int, name string) string {
	if at := path.Join(dir, name); len(at) <= maxAddress {
		return at
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, name)
}

// tidy removes the sockets of processes that have ended from the directory, which is the user's.
// There can be thousands, because a process that ends without Close leaves its own.
func (l *listener) tidy() {
	dir := path.Dir(l.path)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for _, name := range descriptor.Names(fd) {
		if !strings.HasSuffix(name, ".sock") || l.isNew(name) || !isStale(fd, name) {
			continue
		}
		if wire.Refuses(address(dir, fd, name)) {
			_ = unix.Unlinkat(fd, name, 0)
		}
		if l.isClosed() {
			return
		}
	}
}

// isStale reports whether a name in a directory is that of a socket that is not young.
func isStale(dir int, name string) bool {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	isSocket := st.Mode&unix.S_IFMT == unix.S_IFSOCK
	return isSocket && time.Since(time.Unix(st.Mtim.Unix())) >= staleAge
}

// isNew reports whether the name of a socket belongs to a process that began in the minute
// before this one. Such a socket is not stale, whatever its age.
func (l *listener) isNew(name string) bool {
	_, rest, _ := strings.Cut(name, "-")
	number, _, _ := strings.Cut(strings.TrimSuffix(rest, ".sock"), "-")
	start, err := strconv.ParseUint(number, 10, 64)
	return err == nil && start <= l.hello.Start && l.hello.Start-start < staleTicks
}

func (l *listener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// accept admits watchers until the socket is closed.
func (l *listener) accept() {
	for {
		c, err := accept(l.socket)
		switch {
		case l.isClosed():
			if err == nil {
				c.Close()
			}
			return
		case err != nil:
			time.Sleep(acceptPause)
		case !admitted(c):
			c.Close()
		default:
			l.add(c)
		}
	}
}

// add serves a connection, unless there are too many.
func (l *listener) add(c *os.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return
	}
	if len(l.connections) >= maxConnections {
		busy := &wire.Error{Code: wire.CodeBusy, Text: "too many processes are connected to it"}
		_ = c.SetWriteDeadline(time.Now().Add(acceptPause))
		_, _ = c.Write(wire.Append(nil, wire.KindError, busy.Append(nil)))
		c.Close()
		return
	}
	one := &connection{File: c, listener: l}
	l.connections[one] = true
	l.served.Go(func() {
		defer l.remove(one)
		one.serve()
	})
}

// remove forgets a connection that has ended.
func (l *listener) remove(c *connection) {
	c.Close()
	c.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.connections, c)
}

// reserve takes memory for a watcher that asks for a number of bytes of chunks, and returns the
// number of chunks that it gets. It refuses the watcher if there are too many.
func (l *listener) reserve(bytes uint64) (chunks uint64, size int64, err error) {
	return l.reserveIn(recordfile.MemoryRoom(), bytes)
}

func (l *listener) reserveIn(
	room recordfile.Room, bytes uint64,
) (chunks uint64, size int64, err error) {
	most := int64(maxMemory)
	if room.Unknown {
		most = maxUnknown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watchers >= maxWatchers {
		return 0, 0, &wire.Error{Code: wire.CodeBusy, Text: fmt.Sprintf("%d processes watch it already", l.watchers)}
	}
	later := int64(maxWatchers-l.watchers-1) * recorder.Size(minChunks) // for later watchers
	left := min(room.Bytes/16, most-l.memory-later)
	for chunks = recorder.Chunks(int64(min(bytes, maxRing))); ; chunks = max(chunks/2, minChunks) {
		if size = recorder.Size(chunks); size <= left {
			l.watchers++
			l.memory += size
			return chunks, size, nil
		}
		if chunks == minChunks {
			return 0, 0, &wire.Error{Code: wire.CodeMemory, Text: fmt.Sprintf("it has no memory for another watcher: %d bytes are left for them", max(left, 0))}
		}
	}
}

// rest waits until some time after a watch has ended: the end of a watch stops the world for a
// moment, and watchers may come and go without end.
func (l *listener) rest() {
	l.resting.Lock()
	defer l.resting.Unlock()
	time.Sleep(l.ended + endPause - clock.Now())
	l.ended = clock.Now()
}

// release releases the memory of a watcher.
func (l *listener) release(size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers--
	l.memory -= size
}

// watching returns the number of watchers.
func (l *listener) watching() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watchers
}

// close ends all watches, and closes the socket.
func (l *listener) close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	for c := range l.connections {
		c.Close()
	}
	l.mu.Unlock()
	_ = os.Remove(l.path)
	err := l.socket.Close()
	l.served.Wait()
	only.Lock()
	defer only.Unlock()
	only.listener = nil
	return err
}

// isAdmitted reports whether a user may watch the processes of another. The kernel reports every
// user that has no UID in a user namespace as the overflow user, whose UID then stands for all of
// them.
func isAdmitted(peer, own uint32, allMapped func() bool) bool {
	if peer == region.OverflowUser && !allMapped() {
		return false
	}
	return peer == own || peer == 0
}

// globs reports whether a pattern matches a name, as path.Match does, but treats the slash like any
// other character.
func globs(pattern, name string) bool {
	const slash = "\x00"
	ok, err := path.Match(
		strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash),
	)
	return ok && err == nil
}

// selects returns whether one of the patterns selects a probe.
func selects(patterns []wire.Pattern) func(provider, probe string) bool {
	return func(provider, probe string) bool {
		return slices.ContainsFunc(patterns, func(p wire.Pattern) bool {
			return globs(p.Provider, provider) && globs(p.Probe, probe)
		})
	}
}
