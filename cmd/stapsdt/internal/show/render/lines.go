package render

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// lines is a Printer that prints a line for each event, for people.
type lines struct {
	output

	width    int  // width of the column of probes so far
	podWidth int  // width of the column of pods so far
	began    bool // whether there was an event
	stacks   stacks
}

const (
	bold, dim, cyan, plain = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
	minWidth, maxWidth     = 24, 64
	maxPodWidth            = 96
)

// Know widens the column of probes up to a limit: a hostile program chooses the name of a probe,
// and the width affects every line.
func (l *lines) Know(p *recording.Probe) {
	l.width = min(max(l.width, minWidth, len(p.Provider)+1+len(p.Name)), maxWidth)
}

// Lost does not show the number of events missing before the first event, which the end of a trace
// shows.
func (l *lines) Lost(before time.Time, n uint64) {
	if l.began {
		l.time(before)
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

// Event implements Printer.
func (l *lines) Event(p *Probe, comm []byte, e *recording.Event) {
	l.head(p, comm, e)
	var v value.Value
	for i := range p.Items {
		v.Set(&p.Items[i], e, i)
		l.buf = AppendText(append(l.buf, p.names[i]...), &p.Items[i], &v)
		if p.marks[i] {
			l.buf = append(l.buf, '?')
		}
	}
	if l.stack != nil {
		l.appendStack()
		return
	}
	l.buf = append(l.buf, '\n')
}

// appendStack ends a line with the number of its stack, and appends the functions of a new one.
func (l *lines) appendStack() {
	n, isNew := l.stacks.number(l.stack)
	l.buf = append(append(l.buf, ' '), l.painted(cyan, "stack=")...)
	l.buf = append(strconv.AppendInt(l.buf, int64(n), 10), '\n')
	if !isNew {
		return
	}
	for _, line := range l.stack.Lines {
		l.buf = append(append(pad(l.buf, 8), Printable(line)...), '\n')
	}
}

// head adds the part of a line before the arguments.
func (l *lines) head(p *Probe, comm []byte, e *recording.Event) {
	if !p.known {
		l.know(p, e.Probe)
	}
	if l.changes(comm, e) {
		l.setOrigin()
	}
	if !l.began {
		l.begin()
	}
	l.paint(dim)
	l.time(time.Unix(0, e.Realtime))
	l.paint(plain)
	l.buf = append(append(l.buf, l.origin.text...), p.head...)
	if len(p.Items) > 0 {
		l.buf = pad(l.buf, l.width-p.width)
	}
}

// begin adds the titles of the columns.
func (l *lines) begin() {
	l.began = true
	l.paint(dim)
	l.buf = fmt.Appendf(l.buf, "%-15s %7s %-15s ", "TIME", "PID", "COMM")
	if l.Pods {
		l.buf = fmt.Appendf(l.buf, "%-*s ", l.podWidth, "POD")
	}
	if l.Goroutines {
		l.buf = append(l.buf, "GOROUTINE "...)
	}
	l.buf = fmt.Appendf(l.buf, "%-*s ARGUMENTS", l.width, "PROBE")
	l.paint(plain)
	l.buf = append(l.buf, '\n')
}

// time adds the time of day to the microsecond.
func (l *lines) time(at time.Time) {
	l.buf = l.stamp.Append(l.buf, at)
	l.buf = l.buf[:len(l.buf)-len("000")]
}

// setOrigin sets the columns of the process.
func (l *lines) setOrigin() {
	o, comm := &l.origin, "-"
	if len(o.comm) > 0 {
		comm = Printable(string(o.comm))
	}
	var digits [len("4294967295")]byte
	pid := strconv.AppendUint(digits[:0], uint64(o.pid), 10)
	text := pad(append(o.text, ' '), 7-len(pid))
	text = append(append(append(text, pid...), ' '), comm...)
	text = pad(text, 16-len(comm))
	if l.Pods {
		pod := ""
		if p := &o.pod; *p != (recording.Pod{}) {
			pod = p.Namespace + "/" + p.Name + "/" + p.Container
		}
		l.podWidth = min(max(l.podWidth, minWidth, len(pod)), maxPodWidth)
		pod = Printable(pod)
		text = append(pad(append(text, pod...), l.podWidth-len(pod)), ' ')
	}
	if l.Goroutines {
		id := []byte{'-'}
		if o.goroutine != 0 {
			id = strconv.AppendUint(nil, o.goroutine, 10)
		}
		text = append(append(pad(text, len("GOROUTINE")-len(id)), id...), ' ')
	}
	o.text = text
}

// know sets the parts of the lines of a probe that its events have in common.
func (l *lines) know(p *Probe, of *recording.Probe) {
	l.Know(of)
	name := Printable(of.Provider) + ":" + Printable(of.Name)
	p.known, p.head, p.width = true, l.painted(bold, name), len(name)
	for i := range p.Items {
		inner, isUnsure := value.CutUnsure(p.Items[i].Name)
		name = Printable(inner) + "="
		p.marks = append(p.marks, isUnsure)
		p.names = append(p.names, append([]byte{' '}, l.painted(cyan, name)...))
	}
}

// painted returns text in a color.
func (l *lines) painted(color, text string) []byte {
	if l.Color {
		text = color + text + plain
	}
	return []byte(text)
}

// pad appends n spaces.
func pad(to []byte, n int) []byte {
	for ; n > 0; n-- {
		to = append(to, ' ')
	}
	return to
}
