package count

import (
	"context"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// streamCounter counts the events of a stream. It is an events.Consumer.
type streamCounter struct {
	*reporter
	Table[Probe]
	stream      *events.Stream
	expressions *Expressions
	probes      map[*recording.Probe]*recordedProbe
	unevaluated uint64
}

// recordedProbe holds the expressions for the events of a probe.
type recordedProbe struct {
	*evaluate.Measure
	number int         // the index from Table.Number
	plain  bool        // there are no expressions
	only   *Row[Probe] // the row if there is only one, once there was an event
}

func newStreamCounter(o *Options) *streamCounter {
	return &streamCounter{
		expressions: &o.Expressions,
		probes:      map[*recording.Probe]*recordedProbe{},
	}
}

// run counts the events, and shows the result.
func (c *streamCounter) run(ctx context.Context, s *events.Stream, r *reporter) error {
	c.reporter, c.stream, r.results, r.until = r, s, c, s.Until
	s.Announce()
	if err := s.Run(ctx, c); err != nil {
		return err
	}
	return r.finish()
}

// Event counts an event. The probe has all variables of the expressions: the source leaves out
// other probes.
func (c *streamCounter) Event(e *events.Event) error {
	if p, err := c.probe(e.Probe); err == nil {
		if !c.stream.Live && c.options.Interval > 0 {
			c.begin(time.Unix(0, e.Realtime))
		}
		c.take(p, e.Event)
	}
	return nil
}

// Taker implements events.Taker.
func (c *streamCounter) Taker(of *recording.Probe) func(*recording.Event) {
	p, err := c.probe(of)
	if err != nil {
		return nil
	}
	take := func(e *recording.Event) { c.take(p, e) }
	if c.stream.Live || c.options.Interval == 0 {
		return take
	}
	return func(e *recording.Event) {
		c.begin(time.Unix(0, e.Realtime))
		take(e)
	}
}

// take counts an event of a probe.
func (c *streamCounter) take(p *recordedProbe, e *recording.Event) {
	if !p.plain {
		if counts, fault := p.Take(e); !counts {
			if fault {
				c.unevaluated++
			}
			return
		}
	}
	row := p.only
	if row == nil {
		if row = c.Row(p.number, p.Values); row == nil {
			return
		}
		if len(p.Values) == 0 {
			p.only = row
		}
	}
	if row.Count++; !p.plain && c.expressions.Value != "" {
		c.tally(row, c.expressions.Buckets, p.Type, p.Bits)
	}
}

// begin begins the first interval with the first event if it was recorded before the run.
func (c *streamCounter) begin(first time.Time) {
	if c.shown[1].counts == nil && first.Before(c.shown[1].at) {
		c.shown[0].at, c.shown[1].at = first, first
	}
}

func (c *streamCounter) Know(*recording.Probe) {}

func (c *streamCounter) Gone(f *replay.File) {
	for _, p := range f.Recorded() {
		delete(c.probes, p)
	}
}

// fits returns an error if a probe lacks a variable that the expressions use.
func (e *Expressions) fits(p *recording.Probe) error {
	_, err := evaluate.NewMeasure(p, e.counting())
	return err
}

// needs returns the requirements for a program's own events.
func (o *Options) needs() replay.Needs {
	return replay.Needs{Exprs: o.exprs(), Starts: true, Fits: o.Expressions.fits}
}

// exprs returns the expressions.
func (e *Expressions) exprs() []string {
	exprs := slices.Clone(e.By)
	if e.Value != "" {
		exprs = append(exprs, e.Value)
	}
	return exprs
}

func (c *streamCounter) Report(what string) error {
	if c.format.IsJSON() {
		if err := c.stream.Losses().Encode(c.Out); err != nil {
			return err
		}
	}
	err := c.stream.Report(replay.LowerBounds, 0)
	if c.Lost > 0 {
		c.Warn("%d events were lost, because there are too many different %s", c.Lost, what)
	}
	evaluate.Unevaluated(c.Console, c.unevaluated)
	return err
}

// probe returns the expressions for the events of a probe.
func (c *streamCounter) probe(p *recording.Probe) (*recordedProbe, error) {
	if known := c.probes[p]; known != nil {
		return known, nil
	}
	m, err := evaluate.NewMeasure(p, c.expressions.counting())
	if err != nil {
		return nil, err
	}
	r := &recordedProbe{Measure: m, number: c.Number(Probe{p.Provider, p.Name})}
	r.plain = len(c.expressions.By) == 0 && c.expressions.Value == ""
	c.probes[p] = r
	return r, nil
}
