//go:build linux

package live

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

// arrival is the answer of a process.
type arrival struct {
	process    *socket.Process
	connection *socket.Connection
	memory     *wire.Memory // nil if the process is not watched
	err        error
}

func (a *arrival) close() {
	if a.connection != nil {
		a.connection.Close()
	}
	if a.memory != nil {
		a.memory.Close()
	}
}

// connectFamily connects to a process that the user named, and to those that it has forked. Only if
// the named process does not listen itself, one of the others must.
func (f *Feed) connectFamily(pid int) error {
	start := socket.Started(pid)
	f.named[pid], f.family[pid] = start, start
	f.ends.Watch(pid)
	var listening []*socket.Process
	var refused error // the first
	for i, member := range proc.Family([]int{pid}) {
		p, err := socket.Find(member)
		switch {
		case err == nil:
			listening = append(listening, p)
		case i == 0 && !errors.Is(err, socket.ErrNone):
			return err
		case refused == nil:
			refused = err
		}
	}
	if len(listening) == 0 {
		return refused
	}
	f.dial(listening)
	failed := map[*socket.Process]error{}
	_ = f.await(startPatience, func(a arrival) error {
		if err := f.add(a); err != nil {
			failed[a.process] = err
		}
		return nil
	})
	first := listening[0]
	if err := failed[first]; err != nil && (first.PID == pid || len(failed) == len(listening)) {
		return err
	}
	for p, err := range failed {
		f.refuse(p, err)
	}
	return nil
}

// processes returns the listening processes.
var processes = (*socket.Newcomers).Processes

// connectAll connects to all listening processes. It waits only briefly for processes that do not
// answer.
func (f *Feed) connectAll() {
	f.dial(processes(&f.newcomers))
	_ = f.await(startPatience, func(a arrival) error { f.take(a); return nil })
}

// Begin begins to watch, instead of Run. It waits only briefly for programs that are not watched at
// once.
func (f *Feed) Begin() {
	f.watch()
	_ = f.await(beginPatience, func(a arrival) error { f.take(a); return nil })
}

// await takes the answers that are expected. It waits at most patience.
func (f *Feed) await(patience time.Duration, take func(arrival) error) (err error) {
	late := time.After(patience)
	for f.expected() > 0 {
		select {
		case a := <-f.arrivals:
			err = cmp.Or(err, take(a))
		case <-late:
			return err
		}
	}
	return err
}

// dial begins to connect to new processes, and to watch them if the feed already watches.
func (f *Feed) dial(all []*socket.Process) {
	now := time.Now()
	f.refused.purge(all, now)
	f.stale.purge(all, now)
	var fresh []*socket.Process
	for _, p := range all {
		if names := f.config.Names; len(names) > 0 && !proc.IsCalled(p.PID, names) {
			continue
		}
		if k := p.Key(); f.programs[k] == nil && !f.refused.has(k, now) && !f.stale.has(k, now) {
			f.programs[k] = &program{}
			fresh = append(fresh, p)
		}
	}
	watching, request := f.watching, f.request()
	for _, p := range fresh {
		f.dialer.Do(p, func() {
			select {
			case <-f.closed:
				return
			default:
			}
			a := arrival{process: p}
			a.connection, a.err = p.Dial()
			go func() { // so that no process waits for another
				if watching && a.err == nil {
					request := request
					request.Patterns = f.patternsFor(a.connection.Probes)
					a.memory, a.err = a.connection.Watch(request)
				}
				f.arrive(a)
			}()
		})
	}
}

// arrive passes on an answer, unless the feed is closed.
func (f *Feed) arrive(a arrival) {
	if a.err != nil && a.connection != nil {
		a.close()
		a.connection = nil
	}
	f.alarm.ring()
	select {
	case f.arrivals <- a:
	case <-f.closed:
		a.close()
	}
}

// watch begins to watch the connected programs, all at the same time because each may be slow.
func (f *Feed) watch() {
	f.watching = true
	request := f.request()
	for _, p := range f.in(connected) {
		f.ask(p, request)
	}
}

// ask requests the watch of a program.
func (f *Feed) ask(p *program, request wire.Watch) {
	p.state, p.size = asked, int(request.Bytes)
	c := p.Connection
	request.Patterns = f.patternsFor(c.Probes)
	go func() {
		memory, err := c.Watch(request)
		f.arrive(arrival{c.Process, c, memory, err})
	}()
}

// take adds a process that has answered, or warns that it is not watched.
func (f *Feed) take(a arrival) {
	if err := f.add(a); err != nil {
		f.refuse(a.process, err)
	}
}

// takeAll takes an answer and all that have come since, so that the memory of all programs is not
// searched after each.
func (f *Feed) takeAll(a arrival) {
	for {
		f.take(a)
		select {
		case a = <-f.arrivals:
		default:
			return
		}
	}
}

// refuse warns once that a process is not watched, and schedules another attempt unless the process
// is gone. A socket on which no process listens is tried again too, but without a warning, because
// a program may not listen yet. Killed programs leave such sockets.
func (f *Feed) refuse(p *socket.Process, err error) {
	switch {
	case errors.Is(err, socket.ErrStale):
		f.stale.add(p.Key(), time.Now())
		return
	case !p.Elsewhere && !proc.Alive(p.PID):
		return
	}
	if f.refused.add(p.Key(), time.Now()) {
		f.Warn("%v", err)
	}
}

// add adds a process that has answered to the programs, with its events if it is watched.
func (f *Feed) add(a arrival) (err error) {
	k := a.process.Key()
	if a.err != nil {
		delete(f.programs, k)
		return a.err
	}
	p := f.programs[k]
	p.Connection = a.connection
	f.shown = f.shown || f.shows(p)
	switch {
	case a.memory == nil && f.watching: // the connection began before the watch
		f.ask(p, f.request())
		return nil
	case a.memory == nil:
		p.state = connected
		return nil
	}
	if f.Came != nil {
		f.Came(p.Probes)
	}
	p.size = a.memory.Size()
	size := int64(p.size)
	rings.Add(size)
	release := func() {
		a.memory.Close()
		rings.Add(-size)
	}
	process := about(p.Process)
	process.Probes = p.Probes
	if p.file, err = f.Add(a.memory, process, release); err != nil {
		delete(f.programs, k)
		p.Close()
		return fmt.Errorf("%v: %w", p.Process, err)
	}
	p.state, p.gone, p.since = watched, make(chan struct{}), clock.Now()
	f.watches = nil
	go f.awaitEnd(p)
	say(f.Console, f.config, fmt.Sprintf("%v is watched by its socket", p.Process))
	return nil
}

// awaitEnd wakes the feed when the connection of a program has ended.
func (f *Feed) awaitEnd(p *program) {
	_ = p.Gone()
	close(p.gone)
	f.ended.Store(true)
	f.alarm.ring()
}

// family maps the PIDs of the processes of -p and of their descendants to their start times. A
// process that reuses the PID of an ended one is not in the family.
type family map[int]uint64

// remember replaces the family with its living members and all of their descendants, and returns
// their PIDs.
func (f family) remember() []int {
	var living []int
	for pid, start := range f {
		if socket.Started(pid) == start {
			living = append(living, pid)
		} else {
			delete(f, pid)
		}
	}
	if len(living) == 0 {
		return nil
	}
	all := proc.Family(living)
	for _, pid := range all {
		if start := socket.Started(pid); f[pid] == 0 && start != 0 {
			f[pid] = start
		}
	}
	return all
}

// listening returns the listening processes of the family that are not known.
func (f family) listening(known map[socket.Key]bool) (all []*socket.Process) {
	for _, pid := range f.remember() {
		if p := (&socket.Process{PID: pid, Start: f[pid]}); known[p.Key()] {
			continue
		}
		if p, err := socket.Find(pid); err == nil && p.Start == f[pid] {
			all = append(all, p)
		}
	}
	return all
}
