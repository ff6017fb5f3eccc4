package render

import (
	"bytes"
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/timestamp"
)

// Printer prints events in a format.
type Printer interface {
	// Know adds a probe, before its events.
	Know(p *recording.Probe)
	// Event adds an event of a probe.
	Event(p *Probe, f *Fired, values Values)
	// Lost adds a note that n events are missing before an event at a time of day.
	Lost(before time.Time, n uint64)
	// End adds the end of the output. n events are missing there, or at an unknown place.
	End(n uint64)
	// Flush writes what was added, and Size returns the number of its bytes.
	Flush(w io.Writer) error
	Size() int
}

// Probe describes the values of an event that are shown. The Printer of its first event keeps in it
// the parts of the output that all of its events have in common.
type Probe struct {
	Provider, Probe string
	Items           []event.Item

	known bool     // the Printer has seen an event
	head  []byte   // the part with the names of the provider and the probe
	width int      // the width of these names in a line
	names [][]byte // the parts before the values
	// columns are the indexes of the values by the columns of a table, or -1.
	columns []int
	cut     []byte // the names of the last event's values that were cut, with a comma after each
	// constants are the names of the last event's values that have one, as members of an object,
	// with a comma after each.
	constants []byte
}

// Values are the values of an event.
type Values interface {
	// Value returns the i-th of the values that are shown. It is valid until the next call.
	Value(i int) *event.Value
}

// Fired holds the time of an event, and the process that fired it.
type Fired struct {
	At   time.Time
	PID  uint32
	TID  int64 // -1 if unknown
	Comm []byte
	// Goroutine is the ID of the goroutine, or 0 if it is not shown or unknown.
	Goroutine uint64
	// Pod is the pod of the process, or nil if it is not shown, or there is none.
	Pod *recording.Pod
}

// Style holds the options of a Printer that do not depend on the format.
type Style struct {
	// Color adds colors for a terminal.
	Color bool
	// Pods adds the pod.
	Pods bool
	// Goroutines adds the goroutine.
	Goroutines bool
	// Terminal means that the output is a terminal.
	Terminal bool
	// Open means that probes of further programs may come.
	Open bool
	// Shown are the expressions that are shown in place of the arguments, or nil.
	Shown []string
	// Warn prints a warning.
	Warn func(format string, args ...any)
}

// NewPrinter returns a printer of events in a format.
func NewPrinter(f query.Format, s Style) Printer {
	clock := timestamp.Formatter{Layout: timestamp.Clock}
	dateTime := timestamp.Formatter{Layout: timestamp.DateTime}
	switch f {
	case query.Text:
		return &lines{Style: s, output: output{stamp: clock}}
	case query.JSON:
		return &objects{output{stamp: dateTime}}
	case query.CSV:
		return &records{Style: s, output: output{stamp: dateTime}}
	}
	panic("events have no printer for " + f.Word())
}

// output holds the text that a Printer has added.
type output struct {
	buf    []byte
	stamp  timestamp.Formatter
	origin origin
}

// origin is the part of the output about the thread and the process of an event, which are often
// those of the event before.
type origin struct {
	pid       uint32
	tid       int64
	goroutine uint64
	comm      []byte
	pod       recording.Pod // the zero value if there is none
	text      []byte        // nil before the first event
}

// changes reports whether an event has another origin than the one before. The caller then sets the
// text, which is empty.
func (o *origin) changes(f *Fired) bool {
	var pod recording.Pod
	if f.Pod != nil {
		pod = *f.Pod
	}
	if o.text != nil && o.pid == f.PID && o.tid == f.TID && o.pod == pod &&
		o.goroutine == f.Goroutine && bytes.Equal(o.comm, f.Comm) {
		return false
	}
	*o = origin{f.PID, f.TID, f.Goroutine, append(o.comm[:0], f.Comm...), pod, o.text[:0]}
	return true
}

func (o *output) Size() int { return len(o.buf) }

func (o *output) Flush(w io.Writer) error {
	if len(o.buf) == 0 {
		return nil
	}
	_, err := w.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}
