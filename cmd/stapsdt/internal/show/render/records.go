package render

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
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
		r.field(name)
	}
	r.end()
}

// Event implements Printer.
func (r *records) Event(s *Probe, f Fired, value func(i int) event.Value) {
	if !r.began {
		r.begin()
	}
	r.buf = append(f.At.UTC().AppendFormat(r.buf, nanoTime), ',')
	r.field(s.Provider)
	r.field(s.Probe)
	r.buf = append(strconv.AppendUint(r.buf, uint64(f.PID), 10), ',')
	if f.TID >= 0 {
		r.buf = strconv.AppendInt(r.buf, f.TID, 10)
	}
	r.buf = append(r.buf, ',')
	r.field(string(f.Comm))
	if r.Pods {
		names := append(strings.SplitN(f.Pod, "/", len(podColumns)), "", "")
		for _, name := range names[:len(podColumns)] {
			r.field(name)
		}
	}
	if r.columns == nil {
		args, _ := appendArgs(nil, s.Items, value)
		r.field(string(args))
	} else {
		r.values(s, value)
	}
	r.end()
}

// values adds the values that have columns.
func (r *records) values(s *Probe, value func(i int) event.Value) {
	for _, name := range r.columns {
		i := slices.IndexFunc(s.Items, func(item event.Item) bool { return item.Name == name })
		if i >= 0 {
			r.value(&s.Items[i], value(i))
		}
		r.buf = append(r.buf, ',')
	}
	for i := range s.Items {
		if !slices.Contains(r.columns, s.Items[i].Name) {
			r.warn(s.Provider+":"+s.Probe, s.Items[i].Name)
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
func (r *records) value(item *event.Item, v event.Value) {
	if v.Type.Kind == expr.String && !isNull(item, v) {
		text := string(v.Text)
		if v.Cut {
			text += "…"
		}
		r.quote(text)
		return
	}
	switch text := AppendJSON(nil, item, v); {
	case string(text) == "null":
	case text[0] == '"': // a number that JSON does not have, or the name of one
		r.quote(string(AppendText(nil, item, v)))
	default:
		r.quote(string(text))
	}
}

func (r *records) field(text string) {
	r.quote(text)
	r.buf = append(r.buf, ',')
}

// quote adds a text, in quotes if necessary. On a terminal, it replaces control characters,
// including line breaks.
func (r *records) quote(text string) {
	inQuotes := strings.ContainsAny(text, "\",\r\n")
	if inQuotes {
		r.buf = append(r.buf, '"')
	}
	for _, c := range text {
		switch {
		case c == '"':
			r.buf = append(r.buf, `""`...)
		case c >= ' ' && c < utf8.RuneSelf-1, c == '\n' && !r.Terminal, c == '\t':
			r.buf = append(r.buf, byte(c))
		case !unicode.IsPrint(c):
			r.buf = utf8.AppendRune(r.buf, utf8.RuneError)
		default:
			r.buf = utf8.AppendRune(r.buf, c)
		}
	}
	if inQuotes {
		r.buf = append(r.buf, '"')
	}
}

// end ends a record, in place of the last comma.
func (r *records) end() { r.buf = append(r.buf[:len(r.buf)-1], "\r\n"...) }
