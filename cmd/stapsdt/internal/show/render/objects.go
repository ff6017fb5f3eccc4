package render

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// JSONEvent describes the objects that Event appends.
type JSONEvent struct {
	Time      time.Time `json:"time" doc:"of the event"`
	Provider  string    `json:"provider" doc:"name"`
	Probe     string    `json:"probe" doc:"name"`
	PID       uint32    `json:"pid" doc:"process"`
	TID       uint32    `json:"tid,omitempty" doc:"thread"`
	Goroutine uint64    `json:"goroutine,omitempty" doc:"ID of the goroutine"`
	Comm      string    `json:"comm" doc:"name of the thread or program; the program in recordings"`
	*PodName
	Args   JSONObject        `json:"args" doc:"arguments, or the values of --show"`
	Unsure []string          `json:"unsure,omitempty" doc:"names of variables; those whose values may be old"`
	Cut    []string          `json:"cut,omitempty" doc:"names of strings; those that were cut"`
	Stack  []string          `json:"stack,omitempty" doc:"functions, the innermost first"`
	Names  map[string]string `json:"names,omitempty" doc:"constants; by the names of the arguments that equal them"`
}

// JSONLost describes the objects that Lost and End append. Those of End have no time.
type JSONLost struct {
	Time *time.Time `json:"time,omitempty" doc:"of the event after them"`
	Lost uint64     `json:"lost" doc:"number of events"`
}

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

// Event implements Printer.
func (l *objects) Event(p *Probe, comm []byte, e *recording.Event) {
	if !p.known {
		p.know(e.Probe)
	}
	if l.changes(comm, e) {
		l.setOrigin()
	}
	l.buf = l.stamp.Append(append(l.buf, `{"time":"`...), time.Unix(0, e.Realtime).UTC())
	l.buf = append(append(append(l.buf, p.head...), l.origin.text...), `,"args":`...)
	l.buf = append(p.appendArgs(l.buf, e), p.unsure...)
	if n := len(p.cut); n > 0 {
		l.buf = append(append(append(l.buf, `,"cut":[`...), p.cut[:n-1]...), ']')
	}
	if n := len(p.constants); n > 0 {
		l.buf = append(append(append(l.buf, `,"names":{`...), p.constants[:n-1]...), '}')
	}
	if l.stack != nil {
		l.appendStack()
	}
	l.buf = append(l.buf, "}\n"...)
}

// appendStack appends the stack as an array.
func (l *objects) appendStack() {
	l.buf = append(l.buf, `,"stack":[`...)
	for i, line := range l.stack.Lines {
		if i > 0 {
			l.buf = append(l.buf, ',')
		}
		l.buf = AppendJSONString(l.buf, line)
	}
	l.buf = append(l.buf, ']')
}

// setOrigin sets the members of the process and the thread.
func (l *objects) setOrigin() {
	o := &l.origin
	text := append(o.text, `,"pid":`...)
	text = strconv.AppendUint(text, uint64(o.pid), 10)
	if o.tid != 0 {
		text = strconv.AppendUint(append(text, `,"tid":`...), uint64(o.tid), 10)
	}
	if o.goroutine != 0 {
		text = strconv.AppendUint(append(text, `,"goroutine":`...), o.goroutine, 10)
	}
	text = AppendJSONString(append(text, `,"comm":`...), o.comm)
	if p := &o.pod; *p != (recording.Pod{}) {
		for i, name := range []string{p.Namespace, p.Name, p.Container} {
			text = append(AppendJSONString(append(text, ','), podColumns[i]), ':')
			text = AppendJSONString(text, name)
		}
	}
	o.text = text
}

// know sets the parts of the objects of a probe that its events have in common.
func (p *Probe) know(of *recording.Probe) {
	p.known = true
	p.head = AppendJSONString([]byte(`Z","provider":`), of.Provider)
	p.head = AppendJSONString(append(p.head, `,"probe":`...), of.Name)
	var unsure []string
	p.knowArgs(func(name string) string {
		inner, isUnsure := value.CutUnsure(name)
		if isUnsure {
			unsure = append(unsure, inner)
		}
		return inner
	})
	for i, name := range unsure {
		before := ","
		if i == 0 {
			before = `,"unsure":[`
		}
		p.unsure = AppendJSONString(append(p.unsure, before...), name)
	}
	if len(unsure) > 0 {
		p.unsure = append(p.unsure, ']')
	}
}

// knowArgs sets the parts before the values of appendArgs. member returns the name of the member
// for an argument.
func (p *Probe) knowArgs(member func(name string) string) {
	before := byte('{')
	for i := range p.Items {
		name := AppendJSONString([]byte{before}, member(p.Items[i].Name))
		p.names, before = append(p.names, append(name, ':')), ','
		p.members = append(p.members, name[1:])
	}
}

// appendArgs appends the values of an event as an object of JSON, and sets cut and
// constants.
func (p *Probe) appendArgs(to []byte, e *recording.Event) []byte {
	p.cut, p.constants = p.cut[:0], p.constants[:0]
	if len(p.Items) == 0 {
		to = append(to, '{')
	}
	var v value.Value
	for i := range p.Items {
		item := &p.Items[i]
		v.Set(item, e, i)
		to = AppendJSON(append(to, p.names[i]...), item, &v)
		if v.Cut {
			p.cut = append(append(p.cut, p.members[i]...), ',')
		}
		if name := item.Constants[v.Bits]; name != "" && !v.Missing {
			p.constants = append(append(p.constants, p.members[i]...), ':')
			p.constants = append(AppendJSONString(p.constants, name), ',')
		}
	}
	return append(to, '}')
}
