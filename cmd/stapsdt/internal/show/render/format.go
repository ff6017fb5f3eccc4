package render

import (
	"bytes"
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/timestamp"
)

// Printer prints events in a format.
type Printer interface {
	// Know adds a probe, before its events.
	Know(p *recording.Probe)
	// Event adds an event of a probe. comm is the name of the thread that fired it, or "".
	Event(p *Probe, comm []byte, e *recording.Event)
	// Stack sets the stack of the next event. Its functions are shown once.
	Stack(*Stack)
	// Lost adds a note that n events are missing before an event at a time of day.
	Lost(before time.Time, n uint64)
	// End adds the end of the output. n events are missing there, or at an unknown place.
	End(n uint64)
	// Flush writes what was added, and Size returns the number of its bytes.
	Flush(w io.Writer) error
	Size() int
}

// Probe describes the arguments of an event, in their order. The Printer of its first event keeps
// in it the parts of the output that all of its events have in common.
type Probe struct {
	Items []value.Item

	known bool     // the Printer has seen an event
	head  []byte   // the part with the names of the provider and the probe
	width int      // the width of these names in a line
	names [][]byte // the parts before the values
	// members are the names of the values as members of an object. unsure is the member with the
	// names of those that may be old, or empty.
	members [][]byte
	unsure  []byte
	marks   []bool // whether a mark follows a value, because it may be old
	// columns are the indexes of the values by the columns of a table, or -1.
	columns []int
	cut     []byte // the names of the last event's values that were cut, with a comma after each
	// constants are the names of the last event's values that have one, as members of an object,
	// with a comma after each.
	constants []byte
}

// Style holds the options of a Printer that do not depend on the format.
type Style struct {
	// Color adds colors for a terminal.
	Color bool
	// Pods adds the pod.
	Pods bool
	// Goroutines adds the goroutine.
	Goroutines bool
	// Stacks means that Stack is called.
	Stacks bool
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
	o := output{Style: s, stamp: timestamp.Formatter{Layout: timestamp.DateTime}}
	switch f {
	case query.Text:
		o.stamp.Layout = timestamp.Clock
		return &lines{output: o}
	case query.JSON:
		return &objects{o}
	case query.CSV:
		return &records{output: o}
	}
	panic("events have no printer for " + f.Word())
}

// output holds the text that a Printer has added.
type output struct {
	Style
	buf    []byte
	stamp  timestamp.Formatter
	origin origin
	stack  *Stack // of the next event, or nil
}

// Stack implements Printer.
func (o *output) Stack(of *Stack) { o.stack = of }

// origin is the part of the output about the thread and the process of an event, which are often
// those of the event before.
type origin struct {
	pid, tid  uint32 // tid is 0 if it is unknown
	goroutine uint64 // 0 if it is unknown or not shown
	comm      []byte
	pod       recording.Pod // the zero value if there is none, or it is not shown
	text      []byte        // nil before the first event
}

// changes reports whether an event has another origin than the one before. The caller then sets the
// text, which is empty.
func (o *output) changes(comm []byte, e *recording.Event) bool {
	var goroutine uint64
	if o.Goroutines {
		goroutine = e.Goroutine
	}
	var pod recording.Pod
	if o.Pods && e.Pod != nil {
		pod = *e.Pod
	}
	was := &o.origin
	if was.text != nil && was.pid == e.PID && was.tid == e.TID && was.pod == pod &&
		was.goroutine == goroutine && bytes.Equal(was.comm, comm) {
		return false
	}
	*was = origin{e.PID, e.TID, goroutine, append(was.comm[:0], comm...), pod, was.text[:0]}
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
