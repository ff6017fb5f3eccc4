//go:build linux

package past

import (
	"os"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/clock"
)

// Reader reads the events that processes have recorded before their events come from another
// source, and records in its Past since when they are known.
type Reader struct {
	*events.Past
	specs []spec.Spec
	// Began and Attached are the times of CLOCK_MONOTONIC when attaching began and when it had
	// ended.
	Began, Attached time.Duration
	ticks           uint64 // processes that started later, in ticks since the boot, have no past
	spent           time.Duration
	now             func() time.Duration
}

// budget is the time that reading the recordings of all processes may take. Meanwhile, the programs
// go on, and their events wait.
const budget = 2 * time.Second

// NewReader returns the Reader of a run that is attached now, for the probes that the specs name.
// It reads nothing if there are none. began is when attaching began.
func NewReader(specs []spec.Choice, began time.Duration) *Reader {
	return &Reader{
		Past: events.NewPast(), specs: spec.All(specs), Began: began, Attached: clock.Now(),
		ticks: socket.Started(os.Getpid()), now: clock.Now,
	}
}

// Asked reports whether recordings are read at all.
func (r *Reader) Asked() bool { return r.specs != nil }

// Read calls take with the recording of a process, if it writes one. f stands for the process.
// starts returns the probes that start operations, PROVIDER:NAME. The operations of the process are
// known if take returns nil and the recording has every event of these probes. If not, f takes it
// that operations that began before a time of CLOCK_MONOTONIC may have ended.
func (r *Reader) Read(
	pid int, until time.Duration, f *replay.File, starts func() []string,
	take func(*Recording) error,
) {
	if r.spent >= budget {
		r.leave(pid, r.Unread)
		return
	}
	began := r.now()
	defer func() { r.spent += r.now() - began }()
	own, err := open(pid, r.specs)
	switch {
	case isSlow(err):
		r.leave(pid, r.Unread)
		return
	case err != nil:
		r.leave(pid, r.Unknown)
		return
	}
	defer own.Close()
	own.isLate = func() bool { return r.spent+r.now()-began >= budget }
	f.BeginPast(r.Began)
	err = take(own)
	since, at, ok := own.Since()
	if ok = ok && err == nil; !ok {
		since = until
	}
	f.EndPast(since, own.Probes())
	switch {
	case ok && own.Has(starts()...):
		r.Known(at)
	case isSlow(err):
		r.Unread()
	default:
		r.Unknown()
	}
}

// leave counts a process whose recording was not read, unless it has no past.
func (r *Reader) leave(pid int, count func()) {
	if socket.Started(pid) <= r.ticks {
		count()
	}
}
