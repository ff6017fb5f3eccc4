//go:build linux

// Package span makes spans of the events of probes, by rules.
package span

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/ring"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Rule makes the spans of a rule. It is an engine.Subscriber.
type Rule struct {
	rule.Base
	rules.Span

	// Ring has the events that are not read yet.
	Ring *ring.Ring
	// Events is the number of events that were read.
	Events atomic.Uint64

	sources []*spanSource // indexed by the IDs of their programs
	open    openSpans
	clock   layout.Clock
	held    []heldSpan
	calls   calls
}

type spanSource struct {
	*bpf.Trace
	provider, name string // the names of the span
	part           string
	call           *callSource    // nil unless it is a function
	items          map[string]int // the indexes of its values
}

// The parts of a span, which are the suffixes of its probes' names.
const (
	spanStart   = "__start"
	spanContext = "__context"
	spanEnd     = "__end"
)

// spanRing is the size of the ring buffer of a rule, which is mapped twice.
const spanRing = 1 << 20

// New returns the rule. Its spans can belong to the same traces as the spans of other rules. New
// checks everything that does not depend on the probes.
func New(h *rule.Host, traces *Traces, text rules.Span) (*Rule, error) {
	s := &Rule{Span: text, open: newOpenSpans(traces)}
	s.calls.fits = map[string]*fits{}
	suffixes := []string{spanStart, spanContext, spanEnd}
	if s.Probe.Functions {
		suffixes = []string{"", spec.ReturnSuffix}
	}
	var specs []spec.Choice
	for _, suffix := range suffixes {
		specs = append(specs, spec.Choice{Spec: s.Probe.Suffixed(suffix)})
	}
	err := s.Open(h, s.Probe.String(), &s.Select, specs)
	if err == nil {
		s.NeedStarts(parts{s}, s.Where)
		s.Ring, err = ring.NewRing(s.Env, "spans", spanRing)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: spans of %s: %w", h.File, s.Probe, err)
	}
	return s, nil
}

// spanText is the maximum length of a string in a span, in bytes.
const spanText = 256

// Follows reports whether these are the spans of a rule.
func (s *Rule) Follows(text rules.Span) bool { return s.Span == text }

// Section implements engine.Subscriber.
func (s *Rule) Section(p *bpf.Probe) (*bpf.Section, error) {
	if s.Ends != nil {
		return s.Ends.Section(p)
	}
	return s.partSection(p)
}

// parts is the subscriber that reads the parts of spans.
type parts struct{ *Rule }

func (s parts) Section(p *bpf.Probe) (*bpf.Section, error) { return s.partSection(p) }

// partSection generates the code that reads a part of a span.
func (s *Rule) partSection(p *bpf.Probe) (*bpf.Section, error) {
	if p.Function != nil {
		return s.functionSection(p)
	}
	part := p.Name[strings.LastIndex(p.Name, "__"):]
	where := ""
	if part == spanEnd {
		where = s.Where
	}
	var show []string
	for i := range p.Args {
		show = append(show, p.ArgName(i))
	}
	if !slices.Contains(show, "id") {
		return nil, fmt.Errorf("it has no argument id, which the spans of package span have")
	}
	if part != spanContext {
		show = append(show, rule.Cgroup, rule.Executable)
	}
	trace, err := bpf.NewTrace(p, where, show, spanText, false)
	if err != nil {
		return nil, err
	}
	section, err := s.Ring.Add(trace)
	if err != nil {
		return nil, err
	}
	source := &spanSource{
		Trace: trace, provider: p.Provider, name: strings.TrimSuffix(p.Name, part), part: part,
		items: map[string]int{},
	}
	for i, name := range show {
		source.items[name] = i
	}
	s.sources = append(s.sources, source)
	return section, nil
}

type ruleEvent struct {
	rule *Rule
	*layout.Event
}

// Read converts the events in the ring buffers of rules to spans. If drain is true, it does not
// wait for events. The events are taken in the order of their times: a span can have a parent of
// another rule.
func Read(all []*Rule, drain bool) error {
	for {
		var errs []error
		var batch []ruleEvent
		for _, s := range all {
			events, err := s.Ring.Read(drain)
			if errs = append(errs, err); err != nil {
				continue
			}
			s.Events.Add(uint64(len(events)))
			for _, e := range events {
				batch = append(batch, ruleEvent{s, e})
			}
		}
		slices.SortStableFunc(
			batch, func(a, b ruleEvent) int { return cmp.Compare(a.Time, b.Time) },
		)
		for _, one := range batch {
			one.rule.event(one.rule.sources[one.ID], one.Event)
		}
		for _, s := range all {
			s.release(drain)
		}
		if err := errors.Join(errs...); err != nil || !drain || len(batch) == 0 {
			return err
		}
	}
}

type values struct {
	*spanSource
	*layout.Event
}

// value returns the value of an argument, which is zero if the probe lacks it.
func (v values) value(name string) (value value.Value) {
	if i, ok := v.items[name]; ok {
		value = v.Value(v.Items, i)
	}
	return value
}

func (v values) number(name string) uint64 { return v.value(name).Bits }

func (v values) text(name string) string { return string(v.value(name).Text) }

func (s *Rule) event(source *spanSource, e *layout.Event) {
	v := values{source, e}
	if source.call != nil {
		s.called(v)
		return
	}
	key := spanKey{e.PID, v.number("id")}
	switch source.part {
	case spanStart:
		o := &openSpan{start: e.Time, parent: v.number("parent"), attributes: v.attributes()}
		o.trace, o.orphan = s.open.traceOf(e.PID, o.parent, key.id)
		_, o.isSpan = source.items["parent"]
		s.open.add(key, o)
	case spanContext:
		if o := s.open.Get(key); o != nil {
			o.join(v.number("trace_high"), v.number("trace_low"), v.number("span"))
			s.open.note(key, o)
		}
	default:
		s.end(key, v)
	}
}

// end passes the finished span to the exporter's sink.
func (s *Rule) end(key spanKey, v values) {
	parent := v.number("parent")
	o := s.open.Get(key)
	if o == nil { // it began before the exporter attached to the probes
		o = &openSpan{start: v.Time, parent: parent, orphan: true}
		if ns, ok := v.items["nanoseconds"]; ok {
			o.took(v.Time, v.Value(v.Items, ns).Bits)
		}
	}
	if o.orphan { // the start of its parent may have been read meanwhile
		o.trace, _ = s.open.traceOf(v.PID, o.parent, key.id)
	}
	s.open.remove(key)
	// computed first, so that the start uses the same reading of the clock
	end := s.clock.At(v.Time)
	span := expose.Span{
		Provider: v.provider, Name: v.name, PID: int(v.PID), Error: v.text("error"),
		TraceID: o.trace, SpanID: layout.SpanID(v.PID, key.id), Parent: o.remote,
		Start: s.clock.At(o.start), End: end,
		Attributes: merge(o.attributes, v.attributes()),
		Executable: v.text(rule.Executable),
	}
	if o.parent != 0 && o.parent != key.id {
		span.Parent = layout.SpanID(v.PID, o.parent)
	}
	s.hold(heldSpan{span, v.number(rule.Cgroup)})
}

// merge returns the attributes of a start and of an end, which has the later value of one that both
// have.
func merge(start, end []expose.Attribute) []expose.Attribute {
	return append(slices.DeleteFunc(start, func(a expose.Attribute) bool {
		return slices.ContainsFunc(end, func(b expose.Attribute) bool { return a.Name == b.Name })
	}), end...)
}

// attributes returns the arguments that are not part of the convention.
func (v values) attributes() (all []expose.Attribute) {
	for i, item := range v.Items {
		switch item.Name {
		case "id", "parent", "nanoseconds", "error", rule.Executable, rule.Cgroup:
			continue
		}
		value := v.Value(v.Items, i)
		if value.Missing || item.Unreadable != nil {
			continue // unknown, which differs from 0
		}
		all = append(all, expose.Attribute{Name: item.Name, Value: attribute(value)})
	}
	return all
}

func attribute(v value.Value) any {
	switch v.Type.Kind {
	case expr.String:
		return string(v.Text)
	case expr.Bool:
		return v.Bits != 0
	case expr.Float:
		return v.Float()
	case expr.Int:
		return int64(v.Bits)
	}
	return v.Bits
}

// Purge removes the spans that will not end.
func (s *Rule) Purge() error {
	if s.open.purge() {
		s.calls.purge()
	}
	if s.Ends != nil {
		return s.Ends.Purge()
	}
	return nil
}

// Close releases everything.
func (s *Rule) Close() {
	s.Base.Close()
	s.Ring.Close()
	for key := range s.open.All() { // their children begin traces of their own
		s.open.remove(key)
	}
}
