package render

import (
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// lines is a Printer that prints a line for each event, for people.
type lines struct {
	output
	Style

	width    int  // width of the column of probes so far
	podWidth int  // width of the column of pods so far
	began    bool // whether there was an event
}

const (
	clockTime              = "15:04:05.000000"
	bold, dim, cyan, plain = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
	minWidth, maxWidth     = 24, 64
	maxPodWidth            = 96
)

// Know widens the column of probes for a probe.
func (l *lines) Know(p *recording.Probe) { l.widen(p.Provider, p.Name) }

// widen widens the column up to a limit: a hostile program chooses the name, and the width affects
// every line.
func (l *lines) widen(provider, probe string) {
	l.width = min(max(l.width, minWidth, len(provider)+1+len(probe)), maxWidth)
}

// Lost does not show the number of events missing before the first event, which the end of a trace
// shows.
func (l *lines) Lost(before time.Time, n uint64) {
	if l.began {
		l.buf = before.AppendFormat(l.buf, clockTime)
		l.buf = fmt.Appendf(l.buf, "  %s lost before this\n", Number(n, "event"))
	}
}

// End implements Printer.
func (l *lines) End(uint64) {}

func (l *lines) paint(color string) {
	if l.Color {
		l.buf = append(l.buf, color...)
	}
}

func (l *lines) Event(s *Probe, f Fired, value func(i int) event.Value) {
	l.head(s, f)
	for i := range s.Items {
		item := &s.Items[i]
		l.name(item.Name)
		l.buf = AppendText(l.buf, item, value(i))
	}
	l.buf = append(l.buf, '\n')
}

// head adds the part of a line before the arguments.
func (l *lines) head(s *Probe, f Fired) {
	l.widen(s.Provider, s.Probe)
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
	l.buf = f.At.AppendFormat(l.buf, clockTime)
	l.paint(plain)
	l.buf = fmt.Appendf(l.buf, " %7d ", f.PID)
	comm := "-"
	if len(f.Comm) > 0 {
		comm = Printable(string(f.Comm))
	}
	l.column(comm, 16)
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

// column appends text, padded with spaces to width bytes.
func (l *lines) column(text string, width int) {
	l.buf = append(l.buf, text...)
	for range width - len(text) {
		l.buf = append(l.buf, ' ')
	}
}

// name adds the part before the value of an argument.
func (l *lines) name(name string) {
	l.buf = append(l.buf, ' ')
	l.paint(cyan)
	l.buf = append(l.buf, Printable(name)...)
	l.buf = append(l.buf, '=')
	l.paint(plain)
}
