package events

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// Past describes which operations a live stream knows: those that have begun since a time. The
// recording of a process has earlier ones.
type Past struct {
	attached time.Time // the source delivers events from then on
	recorded time.Time // the recordings have every event from then on
	unknown  int       // processes without a recording that has every event
	unread   int       // processes for whose recording there was no time
}

// NewPast returns the Past of a stream that delivers events from now on.
func NewPast() *Past { return &Past{attached: time.Now()} }

// Copy returns a copy, which later calls do not change. It returns nil if p is nil.
func (p *Past) Copy() *Past {
	if p == nil {
		return nil
	}
	past := *p
	return &past
}

// Known records that a stream began with the recording of a process, which has every event since a
// time.
func (p *Past) Known(since time.Time) {
	if since.After(p.recorded) {
		p.recorded = since
	}
}

// Unknown records that a stream began without the earlier events of a process.
func (p *Past) Unknown() { p.unknown++ }

// Unread records that a stream began without the earlier events of a process, because reading
// recordings took too long.
func (p *Past) Unread() { p.unread++ }

// Since returns the time from which on the stream knows every operation that has begun, or the zero
// time if p is nil.
func (p *Past) Since() time.Time {
	switch {
	case p == nil:
		return time.Time{}
	case p.unknown+p.unread > 0 || p.recorded.IsZero() || p.recorded.After(p.attached):
		return p.attached
	}
	return p.recorded
}

// Report warns of operations that are not known.
func (p *Past) Report(to *console.Console) {
	if p == nil {
		return
	}
	before := p.attached.Format(time.TimeOnly)
	if p.unknown > 0 {
		to.Warn("operations that began before %s are not known: to know them, start the program with STAPSDT_RECORD=FILE", before)
	}
	if p.unread > 0 {
		to.Warn("operations that began before %s are not known, because reading recordings took too long (processes: %d): select fewer processes with -p",
			before, p.unread)
	}
}

// JSON returns Since for an object, or nil if p is nil.
func (p *Past) JSON() *time.Time {
	if p == nil {
		return nil
	}
	since := p.Since().UTC()
	return &since
}
