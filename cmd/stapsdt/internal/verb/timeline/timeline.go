// Package timeline writes events and operations for Perfetto and chrome://tracing, which draw them
// on a time axis, with a track for each goroutine or thread.
package timeline

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Options select what is written and where.
type Options struct {
	// Format is chrome or perfetto.
	Format string
	// Path is the file, or "-" for standard output.
	Path string
	// Limit is the number of events after which the run ends, or 0 for none.
	Limit uint64
	// From are the recordings to read instead of processes.
	From replay.From
}

// view writes events. It is an events.Consumer.
type view struct {
	options    *Options
	stream     *events.Stream
	operations pairing.Operations
	where      string
	// without recordings: its condition selects events that are not part of an operation
	condition *replay.Reader
	filters   map[*recording.Probe]*replay.Filter
	writer    *writer
	tracks    tracks
	args      evaluate.Arguments
	start     time.Time // the time of day of the first event
	first     int64     // its time by the stream's clock, in nanoseconds
	last      int64
	events    uint64
}

// span is an operation that is open.
type span struct {
	name  string
	at    int64 // start by the stream's clock, in nanoseconds
	track *track
	args  []evaluate.Shown
	// selected means that the operation meets the conditions that were evaluated so far.
	selected bool
}

// Run writes events until the run ends.
func Run(ctx context.Context, to *console.Console, config query.Config, o Options) (err error) {
	if o.Path == "" {
		return query.Usagef("-o %s needs a file: give -O FILE, or -O - for standard output", o.Format)
	}
	if o.Path == "-" && o.Format == "perfetto" && console.IsTerminal(to.Out) {
		return query.Usagef("-o perfetto is not for a terminal: give -O FILE, or a pipe")
	}
	if functions, err := events.Functions(config.Specs); err != nil || functions {
		return cmp.Or(err, query.Usagef("a timeline shows the operations of probes, not of functions: stapsdt tree shows those"))
	}
	if slices.ContainsFunc(config.Specs, spec.Choice.IsLine) {
		return query.Usagef("a timeline shows the operations of probes, not lines: stapsdt tree shows those from one line to another")
	}
	v := &view{
		options: &o, args: evaluate.Arguments{},
		filters:    map[*recording.Probe]*replay.Filter{},
		operations: pairing.Operations{All: true},
	}
	if err := config.CheckWhere(); err != nil {
		return err
	}
	v.where = config.Where
	if v.condition, err = replay.New(nil, v.where, nil); err != nil {
		return err
	}
	v.operations.Where = query.SplitWhere(config.Where)
	config.Where, config.Kernel = "", query.UsesThread(config.Where)
	options := events.Options{
		From: o.From, Needs: replay.Needs{All: v.check}, Goroutines: true, Paired: true,
	}
	if v.stream, err = source.Open(to, &config, options); err != nil {
		return err
	}
	defer v.stream.Close()
	if v.writer, err = create(to, o.Path, o.Format); err != nil {
		return err
	}
	v.tracks.writer = v.writer
	v.stream.Announce()
	if err := cmp.Or(v.stream.Run(ctx, v), v.end()); err != nil {
		v.writer.close()
		return err
	}
	if err := v.writer.close(); err != nil {
		return err
	}
	err = v.stream.Report(events.Unended, 0)
	v.operations.Report(to)
	v.condition.Begin(to) // warns of the probes that were left out although they fired
	evaluate.Unevaluated(to, v.condition.Faults)
	if o.Path != "-" {
		viewers := "https://ui.perfetto.dev"
		if o.Format == "chrome" {
			viewers += " or chrome://tracing"
		}
		to.Warn("wrote %s to %s: open it with %s", render.Number(v.events, "event"), o.Path, viewers)
	}
	return err
}

// check returns an error if the condition is valid neither for an event nor for an operation.
func (v *view) check(all []*recording.Probe) error {
	if (&pairing.Operations{Where: v.operations.Where}).Check(all) == nil {
		return nil
	}
	condition, _ := replay.New(nil, v.where, nil)
	for _, p := range all {
		if condition.NewFilter(p, nil).Selected {
			return nil
		}
	}
	if err := condition.Unfit(); err != nil {
		return query.Usagef("%w", err)
	}
	return nil
}

// meets reports whether an event meets the condition. It reports false if the probe lacks a
// variable of the condition.
func (v *view) meets(e *recording.Event) bool {
	f := v.filters[e.Probe]
	if f == nil {
		f = v.condition.NewFilter(e.Probe, nil)
		v.filters[e.Probe] = f
	}
	return f.Matches(e)
}

func (v *view) Know(p *recording.Probe) { v.operations.Know(p) }

func (v *view) Gone(f *replay.File) {
	v.writeOpen(f)
	v.operations.Gone(f)
	v.tracks.gone(f)
	v.args.Forget(f.Recorded())
	for _, p := range f.Recorded() {
		delete(v.filters, p)
	}
}

func (v *view) Tick() (next time.Duration, more bool, err error) {
	return query.Rest, true, v.writer.flush()
}

func (v *view) Event(event *events.Event) error {
	e, f := event.Event, event.File
	at := int64(v.stream.Clock(e))
	if v.start.IsZero() {
		v.start, v.first = events.At(e), at
	}
	v.last = max(v.last, at)
	if e.Missing > 0 {
		v.instant("stapsdt: "+render.Number(e.Missing, "event")+" lost before this", e, f, nil)
	}
	o := v.operations.Add(e, f)
	if o.Replaced != nil {
		v.write(spanOf(o.Replaced), v.last, "open")
	}
	switch {
	case o.Started != nil:
		v.begin(o.Started, e, f)
	case o.HasEnded:
		s := spanOf(o.Ended.Start)
		if s.selected = o.Ended.Selected; s.selected {
			s.args = merge(s.args, evaluate.ShowAll(v.args.Of(e, "id", "parent")))
		}
		v.write(s, s.at+int64(o.Ended.Took), "")
	case v.operations.IsStray(e) && v.meets(e):
		v.instant(e.Probe.Provider+":"+e.Probe.Name, e, f, evaluate.ShowAll(v.args.Of(e)))
	}
	if v.events++; v.events == v.options.Limit {
		return replay.ErrEnough
	}
	return v.writer.err
}

// merge appends the arguments of the end to the arguments of the start, without arguments that are
// equal in both.
func merge(start, end []evaluate.Shown) []evaluate.Shown {
	all := start
	for _, one := range end {
		at := slices.IndexFunc(start, func(other evaluate.Shown) bool {
			return other.Name == one.Name
		})
		switch {
		case at >= 0 && start[at].Text == one.Text:
			continue
		case at >= 0:
			one.Name += " at the end"
		}
		all = append(all, one)
	}
	return all
}

// begin opens a span.
func (v *view) begin(o *pairing.Operation, e *recording.Event, f *replay.File) {
	s := &span{
		name: o.Kind.Name, at: int64(v.stream.Clock(e)), track: v.tracks.of(e, f),
		selected: o.Selected(), args: evaluate.ShowAll(v.args.Of(e)),
	}
	s.track.open++
	o.Note = s
}

// spanOf returns the span of an operation that has started.
func spanOf(o *pairing.Operation) *span { return o.Note.(*span) }

// write writes a span, if it is selected. note is an argument that describes an end that was not
// seen, or "".
func (v *view) write(s *span, end int64, note string) {
	if s.track.open--; !s.selected {
		return
	}
	lane := s.track.lane(s.at, end)
	args := s.args
	if note != "" {
		args = append(args, evaluate.Shown{Name: note, JSON: []byte("true")})
	}
	v.writer.write(
		v.writer.span(
			&mark{s.name, s.track.process, v.tracks.number(s.track, lane), s.at - v.first, args},
			end-s.at,
		),
	)
}

// instant writes a mark at the time of an event, in its track.
func (v *view) instant(name string, e *recording.Event, f *replay.File, args []evaluate.Shown) {
	t := v.tracks.of(e, f)
	v.writer.write(
		v.writer.instant(
			&mark{name, t.process, v.tracks.number(t, 0), int64(v.stream.Clock(e)) - v.first, args},
		),
	)
}

// writeOpen writes the open spans of a process, or of all processes if f is nil.
func (v *view) writeOpen(f *replay.File) {
	var left []*pairing.Operation
	for _, o := range v.operations.Open.All() {
		if f == nil || o.File == f {
			left = append(left, o)
		}
	}
	// The span that has begun last is inside the others.
	slices.SortFunc(left, func(a, b *pairing.Operation) int {
		return cmp.Compare(b.Since, a.Since)
	})
	for _, o := range left {
		note := "open"
		if !o.IsOpen() {
			note = "end_may_be_lost"
		}
		s := spanOf(o)
		v.write(s, s.at+int64(o.For()), note)
	}
}

// end writes the open spans and completes the file.
func (v *view) end() error {
	v.writeOpen(nil)
	v.writer.write(v.writer.end(v.start, v.stream.Lost()))
	return v.writer.flush()
}
