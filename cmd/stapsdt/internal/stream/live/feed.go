//go:build linux

package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

const (
	// minPause and maxBusyPause are the minimum and maximum pause between two looks at the
	// programs' memory after events were found, and maxPause is the maximum pause otherwise. If
	// every program has at least roomySize bytes, the pause is up to maxRoomyPause after events
	// were found, and up to maxIdlePause after idleTime without events: within it, five million
	// events a second do not fill this memory.
	minPause      = time.Millisecond
	maxBusyPause  = 8 * time.Millisecond
	maxRoomyPause = 25 * time.Millisecond
	maxPause      = 50 * time.Millisecond
	maxIdlePause  = 100 * time.Millisecond
	idleTime      = 5 * time.Second
	roomySize     = 16 << 20
	// share is the part of the memory that may be filled between two looks, as 1/share. eventBytes
	// is the size of an event in the memory.
	share      = 16
	eventBytes = 64
	// lookShare is the part of a processor that the search for events takes, without their
	// delivery, as 1/lookShare.
	lookShare = 10
	// lookLimit is the maximum duration of a look that counts for the pause, for each program.
	lookLimit = time.Millisecond
	// slack is the maximum delay with which an event may be found in the memory and still be put in
	// order.
	slack = 5 * time.Millisecond
	// scanInterval is the minimum interval between searches for other programs, and maxScanInterval
	// the maximum. In between, searches take at most 1/scanShare of the time.
	scanInterval    = time.Second
	maxScanInterval = 3 * time.Second
	scanShare       = 100
	// startPatience is the time for which a start waits for programs that do not answer.
	startPatience = 3 * time.Second
	// beginPatience is the time for which Begin waits: the events of other programs are not read
	// during this time.
	beginPatience = time.Second
)

// Receiver takes events.
type Receiver interface {
	// Event takes an event. Returning replay.ErrEnough ends the run.
	Event(*recording.Event, *replay.File) error
	// Tick is called when the consumer has taken all present events. It returns the maximum time
	// until the next call, and whether the run goes on.
	Tick() (next time.Duration, more bool, err error)
}

// Feed delivers the events of listening programs. Only one goroutine, the caller of Run, reads and
// delivers them.
type Feed struct {
	*replay.Reader
	*console.Console
	config   *query.Config
	patterns []wire.Pattern
	paired   []wire.Pattern // patterns with the starts of operations, or nil without a Pairing
	watching bool
	scanning bool
	// Came is called with the probes of a program before it is watched. Gone is called after a
	// program has ended and its events were delivered. Copy is called after an event of a
	// program, and may take the next ones. Joined is called before the first event of a program,
	// with the time since when it is watched. All may be nil.
	Came   func([]*recording.Probe)
	Gone   func(*replay.File)
	Copy   func(*replay.File) error
	Joined func(p *socket.Process, file *replay.File, since time.Duration) error

	programs  map[socket.Key]*program
	watches   *watches // nil after a program was added or removed
	refused   refusals
	stale     refusals   // sockets on which no process listens
	named     family     // the processes of -p
	ends      proc.Exits // of these
	family    family     // the family for scans
	dialer    socket.Dialer
	newcomers socket.Newcomers
	arrivals  chan arrival
	scans     chan []*socket.Process
	closed    chan struct{} // closed when the feed no longer takes arrivals
	alarm     *alarm
	scanned   time.Time     // when the last search for other processes began
	scanWait  time.Duration // the time from then to the next one
	took      time.Duration // duration of the last look at the memory
	ended     atomic.Bool   // whether connections may have ended since purge looked
	exited    bool          // whether the named processes have exited, which has ended the run
	shown     bool          // whether a program has shown a selected probe

	seen    atomic.Int64  // number of programs that were watched at the last look
	missing atomic.Uint64 // number of lost events
}

// newFeed returns a feed without programs. It creates the alarm first, before programs use up the
// descriptors.
func newFeed(
	to *console.Console, c *query.Config, reader *replay.Reader, patterns []wire.Pattern,
) (*Feed, error) {
	alarm, err := newAlarm()
	return &Feed{
		Reader: reader, Console: to, config: c, patterns: patterns,
		programs: map[socket.Key]*program{}, refused: refusals{}, stale: refusals{},
		named: family{}, family: family{},
		arrivals: make(chan arrival),
		scans:    make(chan []*socket.Process, 1),
		closed:   make(chan struct{}), alarm: alarm,
	}, err
}

// Announce prints the numbers of watched probes and programs, as run.Run does.
func (f *Feed) Announce() {
	names := map[string]bool{}
	for _, p := range f.Probes() {
		names[p.Provider+":"+p.Name] = true
	}
	if f.Console.Announces(f.config.Verbose) && len(names) > 0 {
		programs := f.count(connected) + f.count(watched)
		f.Warn("%s", console.Announcement(len(names), programs, 0, f.config.Duration))
	}
}

// Run lets a consumer take the events of the programs until ctx is done, the time is over, the
// processes have ended, or the consumer needs no more.
func (f *Feed) Run(ctx context.Context, c Receiver) error {
	ctx, cancel := f.config.WithDuration(ctx)
	defer cancel()
	if !f.watching {
		f.watch()
	}
	if f.config.All && len(f.programs)+len(f.refused) == 0 {
		f.Warn("no process of this user listens yet; waiting for one")
	}
	err := f.join() // also of a run that ends at once
	if err == nil {
		err = f.follow(ctx, c)
	}
	f.Finish()
	if err == nil {
		err = f.end(c)
	}
	if errors.Is(err, replay.ErrEnough) {
		return nil
	}
	return err
}

// follow delivers events until there is a reason to end the run.
func (f *Feed) follow(ctx context.Context, c Receiver) error {
	defer context.AfterFunc(ctx, f.alarm.ring)()
	f.scanned, f.scanWait = time.Now(), scanInterval
	wait := minPause
	for found := f.scanned; ctx.Err() == nil; {
		if err := f.join(); err != nil {
			return err
		}
		l, err := f.deliverRecent(ctx, c)
		if err != nil {
			return err
		}
		f.Reader.Begin(f.Console) // warns of probes that are left out, once
		f.seen.Store(int64(l.programs))
		f.missing.Store(f.Lost())
		next, more, err := c.Tick()
		if err != nil || !more {
			return err
		}
		left, err := f.purge(c)
		if err != nil || !left {
			return err
		}
		if time.Since(f.scanned) >= f.scanWait && !f.scanning {
			f.scanned = time.Now()
			f.scan()
			f.scanWait = scanPause(time.Since(f.scanned))
		}
		if l.events > 0 || l.more {
			found = time.Now()
		}
		l.last, l.ago = wait, time.Since(found)
		wait = l.pause()
		// The alarm is set before the last look at what it rings for.
		f.alarm.set(min(wait, next))
		if ctx.Err() == nil && !f.ended.Load() && !f.takeNews() {
			_ = f.alarm.wait() // it is open
			f.takeNews()
		}
	}
	return nil
}

// takeNews takes what other goroutines have found, and reports whether there was anything.
func (f *Feed) takeNews() bool {
	select {
	case a := <-f.arrivals:
		f.takeAll(a)
	case all := <-f.scans:
		f.scanning, f.scanWait = false, scanPause(time.Since(f.scanned))
		f.dial(all)
	default:
		return false
	}
	return true
}

// scan begins to search for other processes, if there may be some: all processes, or the named
// ones, which may have executed other programs, and their descendants.
func (f *Feed) scan() {
	pids := f.config.PIDs
	if f.config.All {
		pids = []int{os.Getpid()}
	}
	if !f.refused.due(time.Now()) && !f.newcomers.Possible(pids...) {
		return
	}
	f.scanning = true
	all := processes // read now, because it may have changed when the scan ends, after the run
	known := map[socket.Key]bool{}
	for k := range f.programs {
		known[k] = true
	}
	go func() {
		if f.config.All {
			f.scans <- all(&f.newcomers) // which the feed does not use meanwhile
		} else {
			f.scans <- f.family.listening(known) // only scans use the family
		}
		f.alarm.ring()
	}()
}

// scanPause returns the time from the beginning of a search for programs to the next search.
func scanPause(took time.Duration) time.Duration {
	return min(max(scanInterval, scanShare*took), maxScanInterval)
}

// look is a search of the programs' memory for events.
type look struct {
	last, took time.Duration // the pause before it, and the duration of the search
	ago        time.Duration // time since events were last found
	events     uint64        // number of events found, selected or not
	more       bool          // some events are too recent to be delivered
	watches
}

// watches describes the watched programs.
type watches struct {
	programs int
	size     int // size of the smallest memory
}

// pause returns the time until the next look. While events come, about a 16th of the memory is
// filled in it. The duration of a look counts up to a limit, because a busy machine may have
// delayed it while the memory was filling.
func (l *look) pause() time.Duration {
	next := min(2*l.last, maxPause)
	switch {
	case l.events > 0:
		room := time.Duration(l.size / share / eventBytes)
		most := maxBusyPause
		if l.size >= roomySize {
			most = maxRoomyPause
		}
		next = max(minPause, min(2*l.last, most, l.last*room/time.Duration(l.events)))
	case l.more:
		next = minPause
	case l.ago > idleTime && l.size >= roomySize:
		next = maxIdlePause
	}
	return max(next, min(lookShare*l.took, time.Duration(l.programs)*lookLimit))
}

// deliverRecent delivers the events whose order is final by now, and returns the look.
func (f *Feed) deliverRecent(ctx context.Context, c Receiver) (*look, error) {
	before, _ := f.Position()
	if _, err := f.deliver(ctx, c, clock.Now()-slack, false); err != nil {
		return nil, err
	}
	after, more := f.Position()
	if f.watches == nil {
		f.watches = &watches{size: math.MaxInt}
		for _, p := range f.in(watched) {
			f.watches.programs++
			f.watches.size = min(f.watches.size, p.size)
		}
	}
	l := &look{took: f.took, more: more, watches: *f.watches}
	if after > before { // the number falls if a program was dropped
		l.events = after - before
	}
	return l, nil
}

// deliver delivers the events until a time, or all if their order does not matter. If it is not
// thorough, it may leave events of programs that were silent to the next calls. It reports whether
// there were any events.
func (f *Feed) deliver(
	ctx context.Context, c Receiver, until time.Duration, thorough bool,
) (found bool, err error) {
	if f.IsUnordered() {
		until = math.MaxInt64
	}
	began := time.Now()
	more, failed, err := f.MoreUntil(until, thorough)
	for ; err != nil; more, failed, err = f.MoreUntil(until, thorough) {
		f.drop(failed, err)
	}
	f.took = time.Since(began)
	if !more {
		return false, nil
	}
	visit := func(e *recording.Event, file *replay.File) error {
		if err := c.Event(e, file); err != nil || f.Copy == nil {
			return err
		}
		if err := f.Copy(file); err != nil {
			f.drop(file, err)
		}
		return nil
	}
	for {
		file, err := f.Each(ctx, visit)
		if file == nil {
			return true, err
		}
		f.drop(file, err)
	}
}

// deliverAll delivers all events that exist.
func (f *Feed) deliverAll(c Receiver) error {
	for range 2 { // in the first round, some files may only return events that were read before
		if _, err := f.deliver(context.Background(), c, math.MaxInt64, true); err != nil {
			return err
		}
	}
	// This delivers nothing, but records the time until which events were delivered.
	_, err := f.deliver(context.Background(), c, clock.Now(), false)
	return err
}

// drop drops a program whose memory holds data that no writer writes.
func (f *Feed) drop(file *replay.File, err error) {
	for k, p := range f.in(watched) {
		if p.file == file {
			f.refuse(p.Process, fmt.Errorf("%v is no longer watched: %w", p.Process, err))
			f.remove(k, p)
		}
	}
}

// remove ends the watch of a program.
func (f *Feed) remove(k socket.Key, p *program) {
	delete(f.programs, k)
	f.watches = nil
	p.Close()
	f.Remove(p.file)
	if f.Gone != nil {
		f.Gone(p.file)
	}
}

// purge delivers the last events of programs that are gone. It reports whether the run goes on,
// because programs remain or may come.
func (f *Feed) purge(c Receiver) (left bool, err error) {
	var gone []socket.Key
	if f.ended.Swap(false) {
		for k, p := range f.in(watched) {
			select {
			case <-p.gone:
				gone = append(gone, k)
			default:
			}
		}
	}
	if len(gone) > 0 {
		if err := f.deliverAll(c); err != nil {
			return false, err
		}
	}
	for _, k := range gone {
		if p := f.programs[k]; p != nil { // it was not dropped
			f.remove(k, p)
		}
	}
	if len(f.programs) > 0 || f.config.All {
		return true, nil
	}
	f.exited = !f.isNamedAlive()
	return !f.exited, nil
}

// isNamedAlive reports whether any process that the user named is alive.
func (f *Feed) isNamedAlive() bool {
	for pid, start := range f.named {
		if proc.Alive(pid) && socket.Started(pid) == start {
			return true
		}
	}
	return false
}

// end ends the watches, and delivers the events that were fired until then.
func (f *Feed) end(c Receiver) error {
	var group sync.WaitGroup
	for _, p := range f.in(watched) {
		group.Go(func() {
			p.Interrupt()
			<-p.gone
			_ = p.End() // it may be gone: its committed events remain
		})
	}
	group.Wait()
	defer func() { f.missing.Store(f.Lost()) }()
	return f.deliverAll(c)
}

// Programs returns the number of programs that were watched at the last look. Any goroutine may
// call it.
func (f *Feed) Programs() int { return int(f.seen.Load()) }

// Missing returns the number of events lost until the last look. Any goroutine may call it.
func (f *Feed) Missing() uint64 { return f.missing.Load() }

// Close closes the connections. The connections of programs that have not answered yet are
// closed when the answer comes.
func (f *Feed) Close() {
	close(f.closed)
	f.alarm.Close()
	f.ends.Close()
	for _, p := range f.programs {
		if p.state == connected || p.state == watched {
			p.Close()
		}
	}
	f.Reader.Close()
}
