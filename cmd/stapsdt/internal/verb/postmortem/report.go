package postmortem

import (
	"context"
	"path"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/ending"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// The states of a recording's process.
const (
	alive  = "alive"  // it writes to the recording
	closed = "closed" // it has closed the recording
	ended  = "ended"  // it has ended without that
	open   = "open"   // it has not closed the recording, and it is not known whether it lives
)

// maxTrees is the number of the oldest open operations whose trees are shown.
const maxTrees = 3

// report is what is shown.
type report struct {
	*subject
	*gatherer
	head    *recording.Head
	file    *replay.File
	state   string
	endings []ending.Ending
	// open are the operations without an end, at most maxOpen, the longest first, each followed by
	// those within it. depths are their depths, and roots are the three oldest of depth 0. known
	// counts those that are known to be open, and unknown the others.
	open           []*pairing.Operation
	depths         []int
	roots          []*pairing.Operation
	known, unknown int
	rows           []*rate
	boot           bool // the recording is of another boot
}

// maxOpen is the maximum number of operations in a report.
const maxOpen = 1000

// newReport returns the report about a recording whose events were gathered.
func newReport(s *subject, g *gatherer, reader *replay.Reader) *report {
	file := reader.Files()[0]
	r := &report{
		subject: s, gatherer: g, head: file.Head(), file: file,
		rows: g.rates.all(g.operations.Kinds()),
	}
	r.boot = isEarlierBoot(r.head)
	switch isAlive, known := file.Alive(); {
	case r.head.Ended:
		r.state = closed
	case !known:
		r.state = open
	case isAlive:
		r.state = alive
	default:
		r.state = ended
	}
	if r.state != alive {
		life := r.life()
		r.endings = append(s.container.Ending(life), r.machine(life)...)
		r.extend(life)
	}
	r.takeOpen()
	return r
}

// life returns the process of the recording.
func (r *report) life() *ending.Life {
	l := &ending.Life{
		PID: r.head.PID, Executable: r.head.Executable, Here: !r.boot && r.head.Boot != [16]byte{},
		Began: time.Unix(0, r.head.Reading.Realtime), Last: time.Unix(0, r.last),
		Ahead: time.Duration(r.head.Reading.Realtime - r.head.Reading.Monotonic),
	}
	if r.last == 0 {
		l.Last = l.Began
	}
	return l
}

// machine returns what this machine tells about the end.
func (r *report) machine(l *ending.Life) []ending.Ending {
	if r.container != nil || r.boot {
		return nil
	}
	return ending.Of(context.Background(), l, r.unit)
}

// extend notes that what was open at the last event was open until the end of the process.
func (r *report) extend(l *ending.Life) {
	for _, e := range r.endings {
		if e.Time == nil || e.Source == ending.Journal {
			continue
		}
		until := time.Duration(e.Time.UnixNano()) - l.Ahead
		if until > r.file.Last() && r.events > 0 {
			r.file.Passed(until)
			r.parts.Look()
		}
		return
	}
}

// takeOpen takes the operations without an end.
func (r *report) takeOpen() {
	var all []*pairing.Operation
	for o := range r.operations.Selected() {
		all = append(all, o)
		if o.IsOpen() {
			r.known++
		} else {
			r.unknown++
		}
	}
	pairing.SortOpen(all)
	all, depths := pairing.Nest(all)
	for i, oldest := 0, 0; i < len(all) && oldest < maxTrees; i++ {
		if depths[i] == 0 {
			oldest++
			r.roots = append(r.roots, all[i])
		}
	}
	r.open, r.depths = all[:min(len(all), maxOpen)], depths[:min(len(all), maxOpen)]
}

// silence returns the time for which a living process has fired nothing.
func (r *report) silence() time.Duration {
	since := r.last
	if since == 0 {
		since = r.head.Reading.Realtime
	}
	return max(r.until.Sub(time.Unix(0, since)), 0)
}

// program returns the name of the program.
func (r *report) program() string { return path.Base(r.head.Executable) }

// paths returns the last events of the goroutines with open operations, in the order of these.
func (r *report) paths() (all []*trail) {
	seen := map[*trail]bool{}
	for _, o := range r.open {
		if one := r.trails.all[threadOf(o)]; one != nil && !seen[one] {
			seen[one] = true
			all = append(all, one)
		}
	}
	return all
}
