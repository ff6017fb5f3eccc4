//go:build linux

package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
)

// Probe is the description of a probe in an event.
type Probe struct {
	Provider, Probe string
	Items           []layout.Item
}

// Lines writes a line for each event.
type Lines struct {
	// JSON selects a JSON object for each event instead of text for people.
	JSON bool
	// Color adds colors for a terminal.
	Color bool
	// Pods adds a column with the pod.
	Pods bool

	width    int // width of the column of probes so far
	podWidth int // width of the column of pods so far
	buf      []byte
	began    bool
}

const (
	bold, dim, cyan, plain = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
	minWidth, maxWidth     = 24, 64
	maxPodWidth            = 96
)

// Known widens the column of probes for a probe, up to a limit: a hostile program chooses the name, and the width
// affects every line.
func (l *Lines) Known(provider, probe string) {
	l.width = min(max(l.width, minWidth, len(provider)+1+len(probe)), maxWidth)
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

// Line adds an event to the output of Flush. value returns the i-th argument.
func (l *Lines) Line(s *Probe, f Fired, value func(i int) event.Value) {
	if l.JSON {
		l.json(s, f, value)
	} else {
		l.text(s, f, value)
	}
}

// Flush writes the events.
func (l *Lines) Flush(w io.Writer) error {
	if len(l.buf) == 0 {
		return nil
	}
	_, err := w.Write(l.buf)
	l.buf = l.buf[:0]
	return err
}

// Size is the number of bytes that Flush will write.
func (l *Lines) Size() int { return len(l.buf) }

func (l *Lines) paint(color string) {
	if l.Color {
		l.buf = append(l.buf, color...)
	}
}

func (l *Lines) text(s *Probe, f Fired, value func(i int) event.Value) {
	l.head(s, f)
	for i := range s.Items {
		item := &s.Items[i]
		l.name(item.Name)
		l.buf = AppendText(l.buf, item, value(i))
	}
	l.buf = append(l.buf, '\n')
}

// head adds the part of a line before the arguments.
func (l *Lines) head(s *Probe, f Fired) {
	l.Known(s.Provider, s.Probe)
	l.podWidth = min(max(l.podWidth, minWidth, len(f.Pod)), maxPodWidth)
	if !l.began {
		l.began = true
		l.paint(dim)
		l.buf = fmt.Appendf(l.buf, "%-15s %7s %-15s ", "TIME", "PID", "COMM")
		if l.Pods {
			l.buf = fmt.Appendf(l.buf, "%-*s ", l.podWidth, "POD")
		}
		l.buf = fmt.Appendf(l.buf, "%-*s ARGUMENTS", l.width, "PROBE")
		l.paint(plain)
		l.buf = append(l.buf, '\n')
	}
	l.paint(dim)
	l.buf = f.At.AppendFormat(l.buf, "15:04:05.000000")
	l.paint(plain)
	l.buf = fmt.Appendf(l.buf, " %7d ", f.PID)
	l.column(Printable(string(f.Comm)), 16)
	if l.Pods {
		l.column(Printable(f.Pod), l.podWidth)
		l.buf = append(l.buf, ' ')
	}
	l.paint(bold)
	name := Printable(s.Provider) + ":" + Printable(s.Probe)
	l.buf = append(l.buf, name...)
	l.paint(plain)
	if len(s.Items) > 0 {
		l.column("", l.width-len(name))
	}
}

// column adds a text that spaces make at least width bytes long.
func (l *Lines) column(text string, width int) {
	l.buf = append(l.buf, text...)
	for range width - len(text) {
		l.buf = append(l.buf, ' ')
	}
}

// name adds the part before the value of an argument.
func (l *Lines) name(name string) {
	l.buf = append(l.buf, ' ')
	l.paint(cyan)
	l.buf = append(l.buf, Printable(name)...)
	l.buf = append(l.buf, '=')
	l.paint(plain)
}

func (l *Lines) json(s *Probe, f Fired, value func(i int) event.Value) {
	l.buf = append(l.buf, `{"time":"`...)
	l.buf = f.At.UTC().AppendFormat(l.buf, "2006-01-02T15:04:05.000000000Z07:00")
	l.buf = append(l.buf, `","provider":`...)
	l.buf = AppendJSONString(l.buf, s.Provider)
	l.buf = append(l.buf, `,"probe":`...)
	l.buf = AppendJSONString(l.buf, s.Probe)
	l.buf = append(l.buf, `,"pid":`...)
	l.buf = strconv.AppendUint(l.buf, uint64(f.PID), 10)
	if f.TID >= 0 {
		l.buf = append(l.buf, `,"tid":`...)
		l.buf = strconv.AppendInt(l.buf, f.TID, 10)
	}
	l.buf = append(l.buf, `,"comm":`...)
	l.buf = AppendJSONString(l.buf, f.Comm)
	if names := strings.SplitN(f.Pod, "/", 3); len(names) == 3 {
		for i, name := range []string{"namespace", "pod", "container"} {
			l.buf = fmt.Appendf(l.buf, `,%q:`, name)
			l.buf = AppendJSONString(l.buf, names[i])
		}
	}
	l.buf = append(l.buf, `,"args":{`...)
	var cut []byte // the names of the arguments that were cut
	for i := range s.Items {
		item := &s.Items[i]
		if i > 0 {
			l.buf = append(l.buf, ',')
		}
		v := value(i)
		l.buf = AppendJSONString(l.buf, item.Name)
		l.buf = append(l.buf, ':')
		if l.buf = AppendJSON(l.buf, item, v); v.Cut {
			cut = AppendJSONString(append(cut, ','), item.Name)
		}
	}
	l.buf = append(l.buf, '}')
	if cut != nil {
		l.buf = fmt.Appendf(l.buf, `,"cut":[%s]`, cut[1:])
	}
	l.buf = append(l.buf, "}\n"...)
}
