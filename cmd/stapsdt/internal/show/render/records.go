package render

import (
	"bytes"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// records is a Printer that prints a record of RFC 4180 for each event, after one with the names of
// the columns. Each name of a value has a column, which is empty for probes without such a value,
// unless probes of other programs can come later. Then args is an object of JSON with all values.
type records struct {
	output
	columns []string // the names of the values that have columns, or nil for args
	args    []byte   // a buffer for the column args, and for a value
	mixed   bool     // whether the values have no columns of their own
	began   bool
	warned  map[string]bool // the probes with a value that has no column
}

// maxColumns bounds the columns of values, which are mostly empty if probes have few in common.
const maxColumns = 64

// maxWarned bounds the warnings about such probes.
const maxWarned = 64

var eventColumns = []string{"time", "provider", "probe", "pid", "tid", "comm"}

var podColumns = []string{"namespace", "pod", "container"}

// Know implements Printer.
func (r *records) Know(p *recording.Probe) {
	if r.began || r.Shown != nil {
		return
	}
	names := make([]string, len(p.Args)-p.Hidden)
	for i := range names {
		names[i] = p.Args[i].Name
	}
	twice := len(slices.Compact(slices.Sorted(slices.Values(names)))) < len(names)
	for _, name := range names {
		if !slices.Contains(r.columns, name) && len(r.columns) <= maxColumns {
			r.columns = append(r.columns, name)
		}
	}
	r.mixed = r.mixed || r.Open || twice || len(r.columns) > maxColumns
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
	switch {
	case r.Shown != nil:
		r.columns = r.Shown
	case r.mixed:
		r.columns = nil
		r.Warn("the arguments are in one column, as JSON: to give them columns, use --show NAME,NAME")
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
	if r.Stacks {
		own = append(slices.Clone(own), "stack")
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
func (r *records) Event(p *Probe, comm []byte, e *recording.Event) {
	if !r.began {
		r.begin()
	}
	if !p.known {
		r.know(p, e.Probe)
	}
	if r.changes(comm, e) {
		r.setOrigin()
	}
	r.buf = r.stamp.Append(r.buf, time.Unix(0, e.Realtime).UTC())
	r.buf = append(append(r.buf, p.head...), r.origin.text...)
	if r.columns == nil {
		r.args = p.appendArgs(r.args[:0], e)
		r.buf = append(r.quote(r.buf, r.args), ',')
	}
	var v value.Value
	for _, i := range p.columns {
		if i >= 0 {
			v.Set(&p.Items[i], e, i)
			r.value(&p.Items[i], &v)
		}
		r.buf = append(r.buf, ',')
	}
	if r.stack != nil {
		r.buf = append(r.quote(r.buf, []byte(r.stack.folded())), ',')
	}
	r.end()
}

// setOrigin sets the columns of the process and the thread.
func (r *records) setOrigin() {
	o := &r.origin
	text := append(strconv.AppendUint(o.text, uint64(o.pid), 10), ',')
	if o.tid != 0 {
		text = strconv.AppendUint(text, uint64(o.tid), 10)
	}
	text = append(r.quote(append(text, ','), o.comm), ',')
	if r.Pods {
		for _, name := range []string{o.pod.Namespace, o.pod.Name, o.pod.Container} {
			text = append(r.quote(text, []byte(name)), ',')
		}
	}
	if r.Goroutines {
		if o.goroutine != 0 {
			text = strconv.AppendUint(text, o.goroutine, 10)
		}
		text = append(text, ',')
	}
	o.text = text
}

// know sets what the records of a probe have in common.
func (r *records) know(p *Probe, of *recording.Probe) {
	p.known = true
	p.head = append(r.quote([]byte("Z,"), []byte(of.Provider)), ',')
	p.head = append(r.quote(p.head, []byte(of.Name)), ',')
	if r.columns == nil {
		p.knowArgs(func(name string) string { return name })
		return
	}
	for _, name := range r.columns {
		is := func(item value.Item) bool { return item.Name == name }
		p.columns = append(p.columns, slices.IndexFunc(p.Items, is))
	}
	for i := range p.Items {
		if !slices.Contains(r.columns, p.Items[i].Name) {
			r.warn(of.Provider+":"+of.Name, p.Items[i].Name)
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
func (r *records) value(item *value.Item, v *value.Value) {
	switch text := r.args[:0]; {
	case v.Missing:
		return
	case v.Type.Kind == expr.String && v.Cut:
		r.args = append(append(text, v.Text...), "…"...)
	case v.Type.Kind == expr.String:
		r.buf = r.quote(r.buf, v.Text)
		return
	default:
		r.args = AppendJSON(text, item, v)
		if r.args[0] == '"' { // a number that JSON does not have
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
