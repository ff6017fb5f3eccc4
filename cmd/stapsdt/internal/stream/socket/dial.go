//go:build linux

package socket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/deputy"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	processes "github.com/go-stapsdt/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"golang.org/x/sys/unix"
)

const (
	// patience is the time that a process may take to answer.
	patience = 2 * time.Second
	// askPatience is the time that connecting to a process and getting its answer may
	// take.
	askPatience = 3 * patience
	// together is the number of processes of a user to which a Dialer connects at a time.
	together = 8
	// maxPlaces is the maximum number of sockets that are tried for a process.
	maxPlaces = 4
)

// Process is a process that listens.
type Process struct {
	// PID is its PID in our namespace or, if it is Elsewhere, in its own.
	PID       int
	UID       uint32
	Elsewhere bool
	// Start is its start time, in ticks since the boot. It differs from the start time of any other
	// process with this PID.
	Start uint64

	own    int    // its PID in its own namespace
	seen   uint64 // its start time in its own namespace
	places []place
}

// Key identifies a process, even after it has executed another program.
type Key struct {
	pid   int
	start uint64
	path  string // "" unless the process is Elsewhere
}

// Key returns the key of the process.
func (p *Process) Key() Key {
	k := Key{pid: p.PID, start: p.Start}
	if p.Elsewhere {
		k.path = p.Path()
	}
	return k
}

// Path returns the path on which the process may listen, as the process sees it.
func (p *Process) Path() string { return p.places[0].path }

// String names the process.
func (p *Process) String() string {
	if p.Elsewhere {
		return fmt.Sprintf("process %d of another PID namespace", p.PID)
	}
	return fmt.Sprintf("process %d", p.PID)
}

// Connection is a connection to a process that listens.
type Connection struct {
	*wire.Client
	*Process
	at    place
	known bool // the other side has the process's PID
	// Probes are the probes that the process had when the connection was made.
	Probes []*recording.Probe
}

// Dial connects to the process, and asks for its probes. The path on which the process claims to
// listen may be on a file system that does not answer.
func (p *Process) Dial() (*Connection, error) {
	offset := func(process string) time.Duration { return processes.ClockOffset(process, "monotonic") }
	if !p.Elsewhere && offset(strconv.Itoa(p.PID)) != offset("self") {
		return nil, fmt.Errorf("%v: %w", p, ErrClock)
	}
	c, err := stall.Within(askPatience, p.stallKey(p.Key()), p.dialAny, func(c *Connection) {
		if c != nil {
			c.Close()
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p, err)
	}
	return c, nil
}

// owner returns the owner of the process, or its user if it is Elsewhere and has no PID here.
func (p *Process) owner() any {
	if p.Elsewhere {
		return p.UID
	}
	return proc.OwnerOf(p.PID)
}

// stallKey returns the key under which package stall counts this process's calls. The sockets of a
// process that is Elsewhere are in directories of our own.
func (p *Process) stallKey(system any) any {
	if p.Elsewhere {
		return stallKey(os.Getpid(), system)
	}
	return stallKey(p.PID, system)
}

// Path returns the path on which the process listens, as the process sees it.
func (c *Connection) Path() string { return c.at.path }

// Watch begins to watch the process, like the Watch of a wire.Client.
func (c *Connection) Watch(w wire.Watch) (*wire.Memory, error) {
	m, err := c.Client.Watch(w)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c.Process, fromPeer(err))
	}
	return m, nil
}

// dialAny connects to all possible places of the process at the same time, so that none delays
// another, and returns the first connection to it, or else one whose other side has no PID here.
// The error is the error of the first place.
func (p *Process) dialAny() (*Connection, error) {
	places := p.likely()
	type answer struct {
		i   int
		c   *Connection
		err error
	}
	answers := make(chan answer, len(places))
	for i, at := range places {
		go func() {
			c, err := p.dial(at)
			answers <- answer{i, c, err}
		}()
	}
	var likely *Connection
	errs := make([]error, len(places))
	for n := range places {
		a := <-answers
		switch {
		case a.err != nil:
			errs[a.i] = a.err
		case a.c.known:
			go func() {
				for range len(places) - n - 1 {
					(<-answers).c.close()
				}
			}()
			likely.close()
			return a.c, nil
		case likely == nil:
			likely = a.c
		default:
			a.c.close()
		}
	}
	switch {
	case likely != nil:
		return likely, nil
	case len(errs) == 0:
		return nil, fmt.Errorf("%w: %w", ErrRefused, stall.Err)
	}
	return nil, errs[0]
}

func (c *Connection) close() {
	if c != nil {
		c.Close()
	}
}

// likely returns the places to try: first the sockets that the user of the process owns, then
// sockets whose owner is unknown, then others. It returns none on a file system that does not
// answer.
func (p *Process) likely() (all []place) {
	if len(p.places) == 1 {
		return p.places
	}
	ranks := make([]chan int, len(p.places))
	for i, at := range p.places {
		ranks[i] = make(chan int, 1)
		go func() { ranks[i] <- at.rank(p) }()
	}
	var byRank [3][]place
	for i, at := range p.places {
		if rank := <-ranks[i]; rank < len(byRank) {
			byRank[rank] = append(byRank[rank], at)
		}
	}
	all = slices.Concat(byRank[:]...)
	return all[:min(len(all), maxPlaces)]
}

// rank returns a number that is lower the more likely the process listens there.
func (at place) rank(p *Process) int {
	info, err := stall.Do(
		p.stallKey(path.Dir(at.path)),
		func() (os.FileInfo, error) { return os.Lstat(at.root + at.path) },
		nil,
	)
	switch {
	case errors.Is(err, stall.Err):
		return 3
	case err != nil:
		return 1
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == p.UID {
		return 0
	}
	return 2
}

func (p *Process) dial(at place) (*Connection, error) {
	var relay *deputy.Relay
	if !deputy.Trusts(p.UID) { // another user may listen there
		var err error
		if relay, err = deputy.NewRelay(p.owner()); err != nil {
			return nil, err
		}
	}
	conn, err := connect(at)
	if err != nil {
		if relay != nil {
			relay.Close()
		}
		return nil, err
	}
	known, err := p.check(conn)
	if relay != nil {
		relayed, relayErr := relay.Take(conn)
		if relayErr != nil {
			return nil, relayErr
		}
		conn = relayed
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	client, err := wire.NewClient(conn, patience)
	if err != nil {
		conn.Close()
		return nil, fromPeer(err)
	}
	c := &Connection{Client: client, Process: p, at: at, known: known}
	if c.Probes, err = client.List(); err != nil {
		client.Close()
		return nil, fromPeer(err)
	}
	return c, nil
}

// fromPeer adds context to an error of a connection, unless the process has sent the error itself.
func fromPeer(err error) error {
	if errors.As(err, new(*wire.Error)) || errors.Is(err, wire.ErrVersion) {
		return err
	}
	if errors.Is(err, wire.ErrProbes) {
		return fmt.Errorf("%w: give a narrower SPEC, and --via kernel", err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it has not answered within %v: %w", patience, err)
	}
	return fmt.Errorf("it has not answered as a program that listens: %w", err)
}

// connect connects by a short path, because the path of a socket has at most 107 bytes.
func connect(at place) (*net.UnixConn, error) {
	dir, err := unix.Open(at.root+path.Dir(at.path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if (err == unix.EACCES || err == unix.EPERM) && at.root != "" {
		// The process may have the same root as this command even if its root cannot be opened.
		const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
		if own, ownErr := unix.Open(path.Dir(at.path), flags, 0); ownErr == nil {
			dir, err = own, nil
		}
	}
	if err == unix.ENOENT {
		return nil, fmt.Errorf("%w: %s", ErrDeleted, at.path) // with its directory
	}
	if err != nil {
		return nil, fmt.Errorf(
			"%w: %w", ErrRefused, &os.PathError{Op: "open", Path: at.root + path.Dir(at.path), Err: err},
		)
	}
	defer unix.Close(dir)
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir, path.Base(at.path)))
	switch {
	case err == nil:
		return conn.(*net.UnixConn), nil
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%s: %w", at.path, ErrStale)
	case errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("%w: %s", ErrDeleted, at.path)
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrRefused, at.path, err)
}

// check refuses a peer that is another process, which may have replaced the socket by its own. It
// reports whether the peer is known to be the process.
func (p *Process) check(conn *net.UnixConn) (known bool, err error) {
	peer, err := wire.Peer(conn)
	if err != nil {
		return false, err
	}
	if int(peer.Pid) == os.Getpid() && p.PID != os.Getpid() {
		peer.Pid = 0 // gVisor (2022) returns this process instead of its peer
	}
	switch {
	case peer.Uid != p.UID && !(peer.Pid != 0 && int(peer.Pid) == p.PID):
		return false, fmt.Errorf("%w: user %d listens there", ErrRefused, peer.Uid)
	case p.Elsewhere && peer.Pid != 0:
		return false, fmt.Errorf("%w: it belongs to process %d, which is found by its own PID", ErrStale, peer.Pid)
	case !p.Elsewhere && peer.Pid != 0 && int(peer.Pid) != p.PID:
		return false, fmt.Errorf("%w: process %d listens there", ErrRefused, peer.Pid)
	}
	return peer.Pid != 0, nil
}

// Dialer connects to processes, a few of each user at a time, so that no user can delay the others.
// The zero Dialer is ready to use.
type Dialer struct {
	mu    sync.Mutex
	users map[uint32]chan struct{}
}

// Do calls f, which connects to a process, in another goroutine.
func (d *Dialer) Do(p *Process, f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users == nil {
		d.users = map[uint32]chan struct{}{}
	}
	if d.users[p.UID] == nil {
		d.users[p.UID] = make(chan struct{}, together)
	}
	user := d.users[p.UID]
	go func() {
		user <- struct{}{}
		defer func() { <-user }()
		f()
	}()
}
