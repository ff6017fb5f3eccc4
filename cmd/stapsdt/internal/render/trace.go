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

// pad adds spaces until the line that began at start is width characters long.
func (l *Lines) pad(start, width int) {
	for len(l.buf)-start < width {
		l.buf = append(l.buf, ' ')
	}
}

func (l *Lines) text(s *Probe, f Fired, value func(i int) event.Value) {
	l.head(f.At, f.PID, f.Comm, f.Pod, s.Provider, s.Probe, len(s.Items) > 0)
	for i := range s.Items {
		item := &s.Items[i]
		l.name(item.Name)
		l.buf = appendText(l.buf, item, value(i))
	}
	l.buf = append(l.buf, '\n')
}

// head adds the part of a line before the arguments.
func (l *Lines) head(at time.Time, pid uint32, comm []byte, pod, provider, probe string, args bool) {
	l.Known(provider, probe)
	l.podWidth = min(max(l.podWidth, minWidth, len(pod)), maxPodWidth)
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
	l.buf = at.AppendFormat(l.buf, "15:04:05.000000")
	l.paint(plain)
	start := len(l.buf)
	l.pad(start, 8-decimals(pid))
	l.buf = strconv.AppendUint(l.buf, uint64(pid), 10)
	l.buf = append(l.buf, ' ')
	start = len(l.buf)
	l.buf = append(l.buf, Printable(string(comm))...)
	l.pad(start, 16)
	if l.Pods {
		start = len(l.buf)
		l.buf = append(l.buf, Printable(pod)...)
		l.pad(start, l.podWidth)
		l.buf = append(l.buf, ' ')
	}
	l.paint(bold)
	start = len(l.buf)
	l.buf = append(l.buf, Printable(provider)...)
	l.buf = append(l.buf, ':')
	l.buf = append(l.buf, Printable(probe)...)
	end := len(l.buf)
	l.paint(plain)
	if args {
		l.pad(start+len(l.buf)-end, l.width)
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

func decimals(n uint32) int {
	digits := 1
	for ; n >= 10; n /= 10 {
		digits++
	}
	return digits
}

func (l *Lines) json(s *Probe, f Fired, value func(i int) event.Value) {
	l.beginJSON(f.At, s.Provider, s.Probe, uint64(f.PID), f.TID, f.Comm, f.Pod)
	var cut []string
	for i := range s.Items {
		item := &s.Items[i]
		if i > 0 {
			l.buf = append(l.buf, ',')
		}
		v := value(i)
		l.buf = AppendJSONString(l.buf, item.Name)
		l.buf = append(l.buf, ':')
		l.buf = appendJSON(l.buf, item, v)
		if v.Cut {
			cut = append(cut, item.Name)
		}
	}
	l.endJSON(cut)
}

// beginJSON begins an event, up to its arguments. A negative TID is unknown.
func (l *Lines) beginJSON(at time.Time, provider, probe string, pid uint64, tid int64, comm []byte, pod string) {
	l.buf = append(l.buf, `{"time":"`...)
	l.buf = at.UTC().AppendFormat(l.buf, "2006-01-02T15:04:05.000000000Z07:00")
	l.buf = append(l.buf, `","provider":`...)
	l.buf = AppendJSONString(l.buf, provider)
	l.buf = append(l.buf, `,"probe":`...)
	l.buf = AppendJSONString(l.buf, probe)
	l.buf = append(l.buf, `,"pid":`...)
	l.buf = strconv.AppendUint(l.buf, pid, 10)
	if tid >= 0 {
		l.buf = append(l.buf, `,"tid":`...)
		l.buf = strconv.AppendInt(l.buf, tid, 10)
	}
	l.buf = append(l.buf, `,"comm":`...)
	l.buf = AppendJSONString(l.buf, comm)
	if names := strings.SplitN(pod, "/", 3); len(names) == 3 {
		for i, name := range []string{"namespace", "pod", "container"} {
			l.buf = fmt.Appendf(l.buf, `,%q:`, name)
			l.buf = AppendJSONString(l.buf, names[i])
		}
	}
	l.buf = append(l.buf, `,"args":{`...)
}

// endJSON ends an event after its arguments, with the names of the arguments that were cut.
func (l *Lines) endJSON(cut []string) {
	l.buf = append(l.buf, '}')
	for i, name := range cut {
		l.buf = append(l.buf, [2]string{`,"cut":[`, `,`}[min(i, 1)]...)
		l.buf = AppendJSONString(l.buf, name)
	}
	if len(cut) > 0 {
		l.buf = append(l.buf, ']')
	}
	l.buf = append(l.buf, "}\n"...)
}
