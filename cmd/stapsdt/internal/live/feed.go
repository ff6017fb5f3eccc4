//go:build linux

package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/socket"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"golang.org/x/sys/unix"
)

const (
	// shortest and longestBusy are how long the memory of programs is left alone after events at least and at most, and longest when none come. When none have come for
	// a time, idle, it is longestIdle, in which five million events a second do not fill the memory of a program that has at
	// least idleRing.
	shortest    = time.Millisecond
	longestBusy = 8 * time.Millisecond
	longest     = 50 * time.Millisecond
	longestIdle = 100 * time.Millisecond
	idle        = 5 * time.Second
	idleRing    = 16 << 20
	// share is the part of the memory that may be filled between two looks, one in this many, and eventBytes what an event takes
	// of it.
	share      = 64
	eventBytes = 64
	// lookShare is the part of a processor that looking for events takes, without the events: one in this many.
	lookShare = 10
	// lookLimit is how long looking takes a pause to be at most, for each program.
	lookLimit = time.Millisecond
	// slack is how much later than its time an event may be found in the memory, and still have its
	// place in the order.
	slack = 5 * time.Millisecond
	// scanInterval is how often other programs are looked for.
	scanInterval = time.Second
	// startPatience is how long a start waits for programs that do not answer.
	startPatience = 3 * time.Second
	// beginPatience is how long Begin waits: the events of the others are not read meanwhile.
	beginPatience = time.Second
)

// ErrEnough is what a consumer returns that wants no more events.
var ErrEnough = errors.New("enough events")

// Consumer takes events.
type Consumer interface {
	// Event takes an event. ErrEnough ends the run.
	Event(*recording.Event, *replay.File) error
	// Tick is called when the events of the present are taken. It returns how long it may take until it
	// is called again, and whether the run goes on.
	Tick() (next time.Duration, more bool, err error)
}

// Feed delivers the events of programs that listen. Only dialing and scanning have goroutines of their own.
type Feed struct {
	*replay.Source
	*console.Console
	config   *run.Config
	patterns []wire.Pattern
	watching bool
	scanning bool
	// Came is called with the probes of a program that will be watched, and Gone when a program has ended, whose
	// events are delivered, unless they are nil.
	Came func([]*recording.Probe)
	Gone func(*replay.File)

	programs  map[socket.Key]*program
	pending   map[socket.Key]bool // those that are being connected to
	refused   refusals
	named     family // the processes of -p
	family    family // of the scans
	dialer    socket.Dialer
	newcomers socket.Newcomers
	arrivals  chan arrival
	scans     chan []*socket.Process
	wake      chan struct{}
	closed    chan struct{} // when nobody takes arrivals any longer
	took      time.Duration // by the last look at the memory

	count   atomic.Int64  // of programs
	missing atomic.Uint64 // events
}

// program is a process that is connected.
type program struct {
	*socket.Connection
	file *replay.File  // while it is watched
	size int           // of its memory
	gone chan struct{} // closed when the connection has ended, or was interrupted
}

func newFeed(to *console.Console, c *run.Config, source *replay.Source, patterns []wire.Pattern) *Feed {
	return &Feed{
		Source: source, Console: to, config: c, patterns: patterns,
		programs: map[socket.Key]*program{}, pending: map[socket.Key]bool{}, refused: refusals{}, named: family{}, family: family{},
		arrivals: make(chan arrival), scans: make(chan []*socket.Process, 1), wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// Announce prints what is watched, as run.Run does.
func (f *Feed) Announce() {
	names := map[string]bool{}
	for _, p := range f.Probes() {
		names[p.Provider+":"+p.Name] = true
	}
	if f.config.Announces(f.Console) && len(names) > 0 {
		f.Warn("%s", run.Announcement(len(names), len(f.programs), 0, f.config.Duration))
	}
}

// Run lets a consumer take the events of the programs until ctx is done, the time is over, the processes
// have ended, or it has enough.
func (f *Feed) Run(ctx context.Context, c Consumer) error {
	if f.config.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.config.Duration)
		defer cancel()
	}
	if !f.watching {
		f.watch()
	}
	if f.config.All && len(f.programs)+len(f.pending)+len(f.refused) == 0 {
		f.Warn("no process of this user listens yet; waiting for one")
	}
	err := f.follow(ctx, c)
	f.Finish()
	if err == nil {
		err = f.end(c)
	}
	if errors.Is(err, ErrEnough) {
		return nil
	}
	return err
}

// follow delivers events until there is a reason to end.
func (f *Feed) follow(ctx context.Context, c Consumer) error {
	alarm := newAlarm()
	defer alarm.close()
	wait, scanned := shortest, time.Now()
	for found := scanned; ctx.Err() == nil; {
		l, err := f.deliverRecent(ctx, c)
		if err != nil {
			return err
		}
		f.Source.Begin(f.Console) // which says what is left out, if it was not said
		f.count.Store(int64(len(f.programs)))
		f.missing.Store(f.Lost())
		next, more, err := c.Tick()
		if err != nil || !more {
			return err
		}
		left, err := f.forget(c)
		if err != nil || !left {
			return err
		}
		if time.Since(scanned) >= scanInterval && !f.scanning {
			scanned = time.Now()
			f.scan()
		}
		if l.events > 0 || l.more {
			found = time.Now()
		}
		l.last, l.ago = wait, time.Since(found)
		wait = l.pause()
		alarm.set(min(wait, next))
		select {
		case <-ctx.Done():
		case <-f.wake:
		case a := <-f.arrivals:
			f.takeAll(a)
		case all := <-f.scans:
			f.scanning = false
			f.dial(all)
		case <-alarm.rang:
		}
	}
	return nil
}

// smallest returns the size of the smallest memory of a program.
func (f *Feed) smallest() int {
	size := math.MaxInt
	for _, p := range f.programs {
		size = min(size, p.size)
	}
	return size
}

// scan begins to look for other processes, if there may be some: all, or the named ones, which may have become other programs, and
// their descendants.
func (f *Feed) scan() {
	pids := f.config.PIDs
	if f.config.All {
		pids = []int{os.Getpid()}
	}
	if !f.refused.due(time.Now()) && !f.newcomers.Possible(pids...) {
		return
	}
	f.scanning = true
	go func() {
		if f.config.All {
			f.scans <- processes()
		} else {
			f.scans <- f.family.listening() // which only scans use
		}
	}()
}

// Now returns the time by CLOCK_MONOTONIC.
func Now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// look is a look at the memory of the programs.
type look struct {
	last, took time.Duration // the pause before it, and how long it has searched for events
	ago        time.Duration // since events were found last
	events     uint64        // that were found, selected or not
	more       bool          // events are there that are too young to be delivered
	size       int           // of the smallest memory
	programs   int
}

// pause returns how long to leave the memory alone. While events come, about a 64th of it is filled meanwhile. The time of a look counts with a
// limit, because a busy machine may have made it wait, while the memory fills.
func (l *look) pause() time.Duration {
	next := min(2*l.last, longest)
	switch {
	case l.events > 0:
		room := time.Duration(l.size / share / eventBytes)
		next = max(shortest, min(2*l.last, longestBusy, l.last*room/time.Duration(l.events)))
	case l.more:
		next = shortest
	case l.ago > idle && l.size >= idleRing:
		next = longestIdle
	}
	return max(next, min(lookShare*l.took, time.Duration(l.programs)*lookLimit))
}

// deliverRecent delivers the events that have their place in the order by now, and says what it has found.
func (f *Feed) deliverRecent(ctx context.Context, c Consumer) (*look, error) {
	before, _ := f.Position()
	if _, err := f.deliver(ctx, c, Now()-slack); err != nil {
		return nil, err
	}
	after, more := f.Position()
	l := &look{took: f.took, more: more, size: f.smallest(), programs: len(f.programs)}
	if after > before { // less if a program was dropped
		l.events = after - before
	}
	return l, nil
}

// deliver delivers the events until a time, and reports whether there were any.
func (f *Feed) deliver(ctx context.Context, c Consumer, until time.Duration) (found bool, err error) {
	began := time.Now()
	more, failed, err := f.MoreUntil(until)
	for ; err != nil; more, failed, err = f.MoreUntil(until) {
		f.drop(failed, err)
	}
	f.took = time.Since(began)
	if !more {
		return false, nil
	}
	for n := 0; n%1024 != 0 || ctx.Err() == nil; n++ {
		e, file, err := f.Next()
		switch {
		case err == io.EOF:
			return true, nil
		case err != nil:
			f.drop(file, err)
			continue
		}
		if err := c.Event(e, file); err != nil {
			return true, err
		}
	}
	return true, nil
}

// deliverAll delivers the events that there are.
func (f *Feed) deliverAll(c Consumer) error {
	for range 2 { // the first time, some files may only be left with what was read before
		if _, err := f.deliver(context.Background(), c, math.MaxInt64); err != nil {
			return err
		}
	}
	_, err := f.deliver(context.Background(), c, Now()) // none: it says how late it is
	return err
}

// drop gives up a program whose memory has what no writer writes.
func (f *Feed) drop(file *replay.File, err error) {
	for k, p := range f.programs {
		if p.file == file {
			f.refuse(p.Process, fmt.Errorf("%v is watched no longer: %w", p.Process, err))
			delete(f.programs, k)
			p.Close()
		}
	}
	f.Remove(file)
}

// forget delivers the last events of programs that are gone, and reports whether the run goes on: programs are left,
// or may come.
func (f *Feed) forget(c Consumer) (left bool, err error) {
	var gone []socket.Key
	for k, p := range f.programs {
		select {
		case <-p.gone:
			gone = append(gone, k)
		default:
		}
	}
	if len(gone) > 0 {
		if err := f.deliverAll(c); err != nil {
			return false, err
		}
	}
	for _, k := range gone {
		p := f.programs[k]
		if p == nil {
			continue // it was dropped
		}
		delete(f.programs, k)
		p.Close()
		f.Remove(p.file)
		if f.Gone != nil {
			f.Gone(p.file)
		}
	}
	if len(f.programs)+len(f.pending) > 0 || f.config.All {
		return true, nil
	}
	return f.isNamedAlive(), nil
}

// isNamedAlive reports whether a process lives that the user has named.
func (f *Feed) isNamedAlive() bool {
	for pid, start := range f.named {
		if proc.Alive(pid) && socket.Started(pid) == start {
			return true
		}
	}
	return false
}

// end ends the watches, and delivers what was fired until then.
func (f *Feed) end(c Consumer) error {
	var group sync.WaitGroup
	for _, p := range f.programs {
		group.Go(func() {
			p.Interrupt()
			<-p.gone
			_ = p.End() // it may be gone: what it has committed is there
		})
	}
	group.Wait()
	defer func() { f.missing.Store(f.Lost()) }()
	return f.deliverAll(c)
}

// Programs returns how many programs were watched at the last look. Any goroutine may call it.
func (f *Feed) Programs() int { return int(f.count.Load()) }

// Missing returns how many events were lost until the last look. Any goroutine may call it.
func (f *Feed) Missing() uint64 { return f.missing.Load() }

// Close ends the connections.
func (f *Feed) Close() {
	close(f.closed)
	for _, p := range f.programs {
		p.Close()
	}
	f.Source.Close()
}
