package render

import (
	"bytes"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// records is a Printer that prints a record of RFC 4180 for each event, after one with the names of
// the columns. Each value has a column if all probes have the same values, and those of other
// programs cannot come later. Otherwise args is an object of JSON with all values.
type records struct {
	output
	Style
	columns []string // the names of the values that have columns, or nil for args
	args    []byte   // a buffer for the column args, and for a value
	known   bool     // whether there is a probe
	began   bool
	warned  map[string]bool // the probes with a value that has no column
}

// maxWarned bounds the warnings about such probes.
const maxWarned = 64

var eventColumns = []string{"time", "provider", "probe", "pid", "tid", "comm"}

var podColumns = []string{"namespace", "pod", "container"}

// Know implements Printer.
func (r *records) Know(p *recording.Probe) {
	names := make([]string, len(p.Args))
	for i, a := range p.Args {
		names[i] = a.Name
	}
	switch {
	case r.began || r.Shown != nil || r.Open:
	case !r.known && len(slices.Compact(slices.Sorted(slices.Values(names)))) == len(names):
		r.columns, r.known = names, true
	case !slices.Equal(r.columns, names):
		r.columns, r.known = nil, true
	}
}

// Lost implements Printer. A record cannot state that events are missing: the end of the trace
// does.
func (r *records) Lost(time.Time, uint64) {}

// End implements Printer. It prints the names of the columns even without an event.
func (r *records) End(uint64) {
	if !r.began {
		r.begin()
	}
}

// begin adds the names of the columns.
func (r *records) begin() {
	r.began = true
	if r.Shown != nil {
		r.columns = r.Shown
	}
	all := slices.Clone(eventColumns)
	if r.Pods {
		all = append(all, podColumns...)
	}
	if r.Goroutines {
		all = append(all, "goroutine")
	}
	own := r.columns
	if own == nil {
		own = []string{"args"}
	}
	for _, name := range own {
		if slices.Contains(all, name) {
			name = "args." + name
		}
		all = append(all, name)
	}
	for _, name := range all {
		r.buf = append(r.quote(r.buf, []byte(name)), ',')
	}
	r.end()
}

// Event implements Printer.
func (r *records) Event(p *Probe, f *Fired, values Values) {
	if !r.began {
		r.begin()
	}
	if !p.known {
		r.know(p)
	}
	if r.origin.changes(f) {
		r.setOrigin(f)
	}
	r.buf = r.stamp.Append(r.buf, f.At.UTC())
	r.buf = append(append(r.buf, p.head...), r.origin.text...)
	if r.columns == nil {
		r.args = p.appendArgs(r.args[:0], values)
		r.buf = append(r.quote(r.buf, r.args), ',')
	}
	for _, i := range p.columns {
		if i >= 0 {
			r.value(&p.Items[i], values.Value(i))
		}
		r.buf = append(r.buf, ',')
	}
	r.end()
}

// setOrigin sets the columns of the process and the thread.
func (r *records) setOrigin(f *Fired) {
	text := append(strconv.AppendUint(r.origin.text, uint64(f.PID), 10), ',')
	if f.TID >= 0 {
		text = strconv.AppendInt(text, f.TID, 10)
	}
	text = append(r.quote(append(text, ','), f.Comm), ',')
	if r.Pods {
		pod := r.origin.pod
		for _, name := range []string{pod.Namespace, pod.Name, pod.Container} {
			text = append(r.quote(text, []byte(name)), ',')
		}
	}
	if r.Goroutines {
		if f.Goroutine != 0 {
			text = strconv.AppendUint(text, f.Goroutine, 10)
		}
		text = append(text, ',')
	}
	r.origin.text = text
}

// know sets what the records of a probe have in common.
func (r *records) know(p *Probe) {
	p.known = true
	p.head = append(r.quote([]byte("Z,"), []byte(p.Provider)), ',')
	p.head = append(r.quote(p.head, []byte(p.Probe)), ',')
	if r.columns == nil {
		p.knowArgs()
		return
	}
	for _, name := range r.columns {
		is := func(item event.Item) bool { return item.Name == name }
		p.columns = append(p.columns, slices.IndexFunc(p.Items, is))
	}
	for i := range p.Items {
		if !slices.Contains(r.columns, p.Items[i].Name) {
			r.warn(p.Provider+":"+p.Probe, p.Items[i].Name)
			return
		}
	}
}

// warn warns once that a value of a probe has no column.
func (r *records) warn(probe, name string) {
	if r.warned[probe] || len(r.warned) == maxWarned {
		return
	}
	if r.warned == nil {
		r.warned = map[string]bool{}
	}
	r.warned[probe] = true
	r.Warn("%s has values without a column, because another probe came first: %s", probe, name)
}

// value adds a value as AppendJSON does, except that a text is not quoted, and null is
// empty.
func (r *records) value(item *event.Item, v *event.Value) {
	switch text := r.args[:0]; {
	case isNull(item, v):
		return
	case v.Type.Kind == expr.String && v.Cut:
		r.args = append(append(text, v.Text...), "…"...)
	case v.Type.Kind == expr.String:
		r.buf = r.quote(r.buf, v.Text)
		return
	default:
		r.args = AppendJSON(text, item, v)
		if r.args[0] == '"' { // a number that JSON does not have, or the name of one
			r.args = AppendText(text, item, v)
		}
	}
	r.buf = r.quote(r.buf, r.args)
}

// quote appends a text, in quotes if necessary. On a terminal, it replaces control characters,
// including line breaks.
func (r *records) quote(to, text []byte) []byte {
	inQuotes := bytes.ContainsAny(text, "\",\r\n")
	if inQuotes {
		to = append(to, '"')
	}
	for len(text) > 0 {
		n := plainLen(text)
		to, text = append(to, text[:n]...), text[n:]
		if len(text) == 0 {
			break
		}
		c, size := utf8.DecodeRune(text)
		switch text = text[size:]; {
		case c == '"':
			to = append(to, `""`...)
		case c == '\n' && !r.Terminal, c == '\t', strconv.IsPrint(c):
			to = utf8.AppendRune(to, c)
		default:
			to = utf8.AppendRune(to, utf8.RuneError)
		}
	}
	if inQuotes {
		to = append(to, '"')
	}
	return to
}

// end ends a record, in place of the last comma.
func (r *records) end() { r.buf = append(r.buf[:len(r.buf)-1], "\r\n"...) }
