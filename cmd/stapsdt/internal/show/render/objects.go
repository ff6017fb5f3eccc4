package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// objects is a Printer that prints an object of JSON for each event, on a line of its own.
type objects struct{ output }

// Know implements Printer.
func (l *objects) Know(*recording.Probe) {}

// Lost implements Printer.
func (l *objects) Lost(before time.Time, n uint64) {
	l.buf = before.UTC().AppendFormat(append(l.buf, `{"time":"`...), time.RFC3339Nano)
	l.buf = fmt.Appendf(l.buf, "\",\"lost\":%d}\n", n)
}

// End implements Printer.
func (l *objects) End(n uint64) {
	if n > 0 {
		l.buf = fmt.Appendf(l.buf, "{\"lost\":%d}\n", n)
	}
}

const nanoTime = "2006-01-02T15:04:05.000000000Z07:00"

// Event implements Printer.
func (l *objects) Event(s *Probe, f Fired, value func(i int) event.Value) {
	l.buf = append(l.buf, `{"time":"`...)
	l.buf = f.At.UTC().AppendFormat(l.buf, nanoTime)
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
	args, cut := appendArgs(append(l.buf, `,"args":`...), s.Items, value)
	if l.buf = args; cut != nil {
		l.buf = fmt.Appendf(l.buf, `,"cut":[%s]`, cut[1:])
	}
	l.buf = append(l.buf, "}\n"...)
}

// appendArgs appends the values of an event as an object of JSON. It also returns the names of
// those that were cut, with a comma before each.
func appendArgs(
	to []byte, items []event.Item, value func(i int) event.Value,
) (object, cut []byte) {
	to = append(to, '{')
	for i := range items {
		item := &items[i]
		if i > 0 {
			to = append(to, ',')
		}
		v := value(i)
		to = append(AppendJSONString(to, item.Name), ':')
		if to = AppendJSON(to, item, v); v.Cut {
			cut = AppendJSONString(append(cut, ','), item.Name)
		}
	}
	return append(to, '}'), cut
}
