//go:build linux

package span

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
)

type (
	goroutine = pairing.Goroutine[uint32]
	openCall  = pairing.Call[uint64]
)

// calls are the open calls of functions in processes, with the IDs of their spans.
type calls struct {
	pairing.Calls[uint32, uint64]
	fits map[string]*fits // by function
}

// fits records which conditions the call and the return of a function can evaluate.
type fits struct {
	call, ret bool // whether they are known
	where     map[string]bool
}

// callSource is what is read of a call or of a return.
type callSource struct {
	isReturn    bool
	call, g     int   // the indexes of its goroutine
	errors      []int // the indexes of the results that are errors
	isAttribute int   // the number of items that are attributes
}

// maxAttributes leaves room for the items that are not arguments.
const maxAttributes = bpf.MaxItems - 8

// functionSection returns the section of a call or of a return.
func (s *Rule) functionSection(p *bpf.Probe) (*bpf.Section, error) {
	where, err := s.fitting(p)
	if err != nil {
		return nil, err
	}
	var show []string
	of := &callSource{isReturn: p.Function.Return}
	for i := range min(len(p.Args), maxAttributes) {
		if p.IsError(i) {
			of.errors = append(of.errors, i)
		}
		show = append(show, p.ArgName(i))
	}
	of.isAttribute = len(show)
	if of.isReturn {
		show = append(show, rule.Cgroup, rule.Executable)
	}
	if len(show) == 0 { // otherwise all arguments are shown
		show = append(show, "pid")
	}
	trace, err := bpf.NewTrace(p, where, show, spanText, false)
	if err != nil {
		return nil, err
	}
	of.call = len(trace.Items)
	trace.AddCall()
	of.g = len(trace.Items)
	trace.AddGoroutine()
	section, err := s.Ring.Add(trace)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(p.Name, spec.ReturnSuffix)
	source := &spanSource{
		Trace: trace, provider: p.Provider, name: name, call: of, items: map[string]int{},
	}
	for i, name := range show[of.isAttribute:] {
		source.items[name] = of.isAttribute + i
	}
	s.sources = append(s.sources, source)
	return section, nil
}

// fitting returns the conditions that a call or a return can evaluate. It is an error if neither of
// the two can evaluate one.
func (s *Rule) fitting(p *bpf.Probe) (where string, err error) {
	name := strings.TrimSuffix(p.Name, spec.ReturnSuffix)
	f := s.calls.fits[name]
	if f == nil {
		f = &fits{where: map[string]bool{}}
		s.calls.fits[name] = f
	}
	f.call, f.ret = f.call || !p.Function.Return, f.ret || p.Function.Return
	var all []string
	for _, condition := range query.SplitWhere(s.Where) {
		_, wrong := p.ParseFilter(condition)
		if wrong == nil {
			f.where[condition] = true
			all = append(all, "("+condition+")")
		}
		if f.call && f.ret && !f.where[condition] {
			return "", fmt.Errorf("%w (and neither can the call and the return together)", wrong)
		}
	}
	return strings.Join(all, " && "), nil
}

// called takes a call or a return. Calls whose return was not seen have no spans.
func (s *Rule) called(v values) {
	g := v.Value(v.Items, v.call.call)
	if g.Missing {
		return // no goroutine called it
	}
	depth, id := v.Second(v.Items, v.call.call), v.Value(v.Items, v.call.g).Bits
	at := goroutine{Process: v.PID, G: g.Bits}
	if v.call.isReturn {
		s.unwind(at, id, depth+1)
		if span, ok := s.calls.End(at, v.name, depth); ok {
			s.returned(spanKey{v.PID, span}, v)
		}
		return
	}
	open := s.unwind(at, id, depth)
	o := &openSpan{start: v.Time, attributes: v.arguments()}
	key := spanKey{v.PID, rand.Uint64() | 1}
	if len(open) > 0 {
		o.parent = open[len(open)-1].Kept
	}
	if parent := s.open.Get(spanKey{v.PID, o.parent}); parent != nil {
		o.trace = parent.trace
	} else {
		o.trace, _ = s.open.traceOf(v.PID, 0, key.id)
	}
	if s.open.add(key, o) {
		s.calls.Begin(at, id, openCall{Name: v.name, Depth: depth, Kept: key.id})
	}
}

func (s *Rule) returned(key spanKey, v values) {
	o := s.open.Get(key)
	if o == nil { // it took too long
		return
	}
	s.open.remove(key)
	end := s.clock.At(v.Time) // first, so that the start uses the same reading of the clock
	span := expose.Span{
		Provider: v.provider, Name: v.name, PID: int(v.PID), Error: v.failure(),
		TraceID: o.trace, SpanID: layout.SpanID(v.PID, key.id),
		Start: s.clock.At(o.start), End: end,
		Attributes: merge(o.attributes, v.arguments()), Executable: v.text(rule.Executable),
	}
	if span.Executable != "" { // a function has no provider, after which a service could be named
		span.Provider = span.Executable
	}
	if o.parent != 0 {
		span.Parent = layout.SpanID(v.PID, o.parent)
	}
	s.hold(heldSpan{span, v.number(rule.Cgroup)})
}

// unwind ends the calls of a goroutine at a depth or deeper, and returns the open ones.
func (s *Rule) unwind(at goroutine, id, depth uint64) []openCall {
	open, ended := s.calls.Unwind(at, id, depth)
	for _, call := range ended {
		s.open.remove(spanKey{at.Process, call.Kept})
	}
	return open
}

// Unwatched removes the open calls of functions in processes.
func (s *Rule) Unwatched(functions []string, pids map[int]bool) {
	if s.Ends != nil {
		if err := s.Ends.Unwatched(functions, pids); err != nil {
			s.Problem(err)
		}
	}
	s.calls.EndAll(func(at goroutine, call openCall) bool {
		name := spec.FunctionProvider + ":" + call.Name
		ends := pids[int(at.Process)] && slices.Contains(functions, name)
		if ends {
			s.open.remove(spanKey{at.Process, call.Kept})
		}
		return ends
	})
}

// purge removes the calls of processes that have ended.
func (c *calls) purge() {
	lives := proc.Lives{}
	c.EndAll(func(at goroutine, _ openCall) bool {
		return !lives.Has(int(at.Process))
	})
}

// arguments returns the arguments of a call, or the results of a return.
func (v values) arguments() (all []expose.Attribute) {
	for i := range v.call.isAttribute {
		item, value := &v.Items[i], v.Value(v.Items, i)
		if value.Missing || item.Unreadable != nil {
			continue
		}
		name := item.Constants[value.Bits]
		if item.Names != nil {
			name = item.NameOf(&value)
		}
		a := expose.Attribute{Name: item.Name, Value: attribute(value)}
		if name != "" {
			a.Value = name
		}
		all = append(all, a)
	}
	return all
}

// failure describes the first result that is an error and not nil, or returns "".
func (v values) failure() string {
	for _, i := range v.call.errors {
		value := v.Value(v.Items, i)
		if !value.Missing && value.Bits != 0 {
			return v.Items[i].NameOf(&value)
		}
	}
	return ""
}
