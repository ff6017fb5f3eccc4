package render

import (
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Printer prints events in a format.
type Printer interface {
	// Know adds a probe, before its events.
	Know(p *recording.Probe)
	// Event adds an event. value returns the i-th of the values that are shown.
	Event(s *Probe, f Fired, value func(i int) event.Value)
	// Lost adds a note that n events are missing before an event at a time of day.
	Lost(before time.Time, n uint64)
	// End adds the end of the output. n events are missing there, or at an unknown place.
	End(n uint64)
	// Flush writes what was added, and Size returns the number of its bytes.
	Flush(w io.Writer) error
	Size() int
}

// Probe describes the values of an event that are shown.
type Probe struct {
	Provider, Probe string
	Items           []event.Item
}

// Fired holds the time of an event, and the process that fired it.
type Fired struct {
	At   time.Time
	PID  uint32
	TID  int64 // -1 if unknown
	Comm []byte
	// Pod is NAMESPACE/POD/CONTAINER, or "".
	Pod string
}

// Style holds the options of a Printer that do not depend on the format.
type Style struct {
	// Color adds colors for a terminal.
	Color bool
	// Pods adds the pod.
	Pods bool
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
	switch f {
	case query.Text:
		return &lines{Style: s}
	case query.JSON:
		return &objects{}
	case query.CSV:
		return &records{Style: s}
	}
	panic("events have no printer for " + f.Word())
}

// output holds the text that a Printer has added.
type output struct{ buf []byte }

func (o *output) Size() int { return len(o.buf) }

func (o *output) Flush(w io.Writer) error {
	if len(o.buf) == 0 {
		return nil
	}
	_, err := w.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}
