package stapsdt

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/words"
)

// Event is a fire as an observer sees it: the probe, the time and the arguments. It is
// valid until the observer returns; a Clone stays valid. Its methods are safe for concurrent
// use. [Provider.Observe] passes events to observers. The zero Event has no probe, and its methods
// Arg, ArgByName and NumArgs panic.
type Event struct {
	arguments words.Arguments
	probe     *Probe
	time      time.Duration
}

// Probe returns the probe that was fired. Its Args describe the event's arguments.
func (e *Event) Probe() *Probe { return e.probe }

// Time returns the time of the event by a monotonic clock, as the time since an arbitrary point.
// On Linux, this is CLOCK_MONOTONIC to within a microsecond, which bpftrace shows as nsecs. In a
// bubble of testing/synctest it is the bubble's time.
func (e *Event) Time() time.Duration { return e.time }

// NumArgs returns the number of arguments.
func (e *Event) NumArgs() int { return len(e.probe.args) }

// Arg returns the argument with index i, from 0 to NumArgs()-1. It panics if there is none. A
// string is cut to MaxString-1 bytes, as for a tracer.
func (e *Event) Arg(i int) Value {
	p := e.probe
	v := Value{kind: p.kinds[:len(p.args)][i], num: e.arguments.Words[i]}
	switch p.args[i] {
	case String:
		before := 0
		for _, t := range p.args[:i] {
			if t == String {
				before++
			}
		}
		v.num, v.text = 0, e.arguments.Texts.At(before)
	case Float32:
		v = float32Value(v.num)
	}
	return v
}

// ArgByName returns the argument with a name, or the zero Value if no argument has it:
// [Probe.Args] lists the names. It takes longer than Arg.
func (e *Event) ArgByName(name string) Value {
	if i := slices.Index(e.probe.argNames(), name); i >= 0 {
		return e.Arg(i)
	}
	return Value{}
}

// Clone returns a copy of the event that stays valid when the observer has returned.
func (e *Event) Clone() *Event {
	c := *e
	c.arguments.Texts = e.arguments.Texts.Clone()
	return &c
}

// String returns the event in one line, such as
//
//	myapp:request__done(path="/index.html", status=200)
//
// for logs and test failures. The format may change.
func (e *Event) String() string {
	if e == nil || e.probe == nil {
		return "<no event>"
	}
	var s strings.Builder
	s.WriteString(e.probe.String())
	s.WriteByte('(')
	names := e.probe.argNames()
	for i := range e.NumArgs() {
		if i > 0 {
			s.WriteString(", ")
		}
		if names != nil {
			s.WriteString(names[i])
			s.WriteByte('=')
		}
		if v := e.Arg(i); v.Kind() == KindString {
			s.WriteString(strconv.Quote(v.text))
		} else {
			s.WriteString(v.String())
		}
	}
	s.WriteByte(')')
	return s.String()
}
