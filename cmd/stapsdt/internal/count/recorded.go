//go:build linux

package count

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// recordedCounter counts the events of recordings, or of programs that listen.
type recordedCounter struct {
	*console.Console
	Recorded[Probe]
	source      *replay.Source
	expressions *Expressions
	probes      map[*recording.Probe]*recordedProbe
	last        *recording.Probe // the probe of the event before, and what is evaluated for it
	ofLast      *recordedProbe
	unevaluated uint64
	json        bool
}

// recordedProbe is what is evaluated for the events of a probe.
type recordedProbe struct {
	*replay.Evaluator
	number int // in Recorded
	by     []*expr.Expr
	items  []*layout.Item
	value  *expr.Expr
	values []replay.Value
}

// runRecorded counts the events of the recordings in o.From.
func runRecorded(ctx context.Context, to *console.Console, config *run.Config, o Options) error {
	if config.Given() || config.Single || config.Duration > 0 || config.Via != "" || config.Budget > 0 || o.Interval > 0 {
		return console.Usagef("-p, -a, -d, -i, --via and --budget are for processes, and --from reads recordings")
	}
	c := newRecordedCounter(to, &o)
	source, err := replay.Open(o.From, config.Specs, config.Where, c.fits)
	if err != nil {
		return err
	}
	defer source.Close()
	source.Begin(to)
	c.source = source
	err = source.Each(ctx, func(e *recording.Event, _ *replay.File) error {
		c.add(e)
		return nil
	})
	if err != nil {
		return err
	}
	r := newReporter(to, c, o)
	if err := r.show(true); err != nil {
		return err
	}
	return c.Report("values of --by")
}

func newRecordedCounter(to *console.Console, o *Options) *recordedCounter {
	return &recordedCounter{Console: to, expressions: &o.Expressions, probes: map[*recording.Probe]*recordedProbe{}, json: o.JSON}
}

// fits returns an error if a probe does not have what is asked for.
func (c *recordedCounter) fits(p *recording.Probe) error {
	_, err := c.probe(p)
	return err
}

// liveReporter shows the numbers of a recordedCounter of programs that listen. It is a live.Consumer.
type liveReporter struct {
	*reporter
	counter *recordedCounter
}

// Event counts an event.
func (r liveReporter) Event(e *recording.Event, _ *replay.File) error {
	r.counter.add(e)
	return nil
}

// runLive counts the events of programs that listen.
func runLive(ctx context.Context, to *console.Console, feed *live.Feed, o Options) (err error) {
	c := newRecordedCounter(to, &o)
	c.source = feed.Source
	r := newReporter(to, c, o)
	if r.interval, err = run.NewInterval(o.Interval); err != nil {
		return err
	}
	feed.Announce()
	if err := feed.Run(ctx, liveReporter{r, c}); err != nil {
		return err
	}
	if err := r.show(true); err != nil {
		return err
	}
	return c.Report("values of --by")
}

// needs says what a program's own events have to have.
func (o *Options) needs(where string) live.Needs {
	exprs := slices.Clone(o.By)
	if o.Buckets != nil {
		exprs = append(exprs, o.Value)
	}
	return live.Needs{Where: where, Exprs: exprs, Fits: newRecordedCounter(nil, o).fits}
}

// Report implements source.
func (c *recordedCounter) Report(what string) error {
	if c.json {
		c.source.ReportJSON(c.Console, replay.LowerBounds)
	} else {
		c.source.Report(c.Console, replay.LowerBounds)
	}
	if c.Lost > 0 {
		c.Warn("%d events were lost, because there are too many different %s", c.Lost, what)
	}
	replay.Unevaluated(c.Console, c.unevaluated)
	return nil
}

// probe returns what is evaluated for the events of a probe.
func (c *recordedCounter) probe(p *recording.Probe) (*recordedProbe, error) {
	if p == c.last {
		return c.ofLast, nil
	}
	if known := c.probes[p]; known != nil {
		c.last, c.ofLast = p, known
		return known, nil
	}
	r := &recordedProbe{Evaluator: replay.NewEvaluator(p), number: c.Number(Probe{p.Provider, p.Name})}
	for _, src := range c.expressions.By {
		e, err := r.Parse(src)
		if err != nil {
			return nil, err
		}
		r.by, r.items = append(r.by, e), append(r.items, replay.NewItem(src, e.Type()))
	}
	r.values = make([]replay.Value, len(r.by))
	if c.expressions.Buckets != nil {
		e, err := r.ParseInteger(c.expressions.Value, layout.What(c.expressions.Buckets))
		if err != nil {
			return nil, err
		}
		if err := layout.Fits(c.expressions.Buckets, e.Type()); err != nil {
			return nil, fmt.Errorf("%s:%s: %w", p.Provider, p.Name, err)
		}
		r.value = e
	}
	c.probes[p] = r
	return r, nil
}

// add counts an event of a probe that has what is asked for: its source leaves out the others.
func (c *recordedCounter) add(e *recording.Event) {
	p, err := c.probe(e.Probe)
	if err != nil {
		return
	}
	p.At(e)
	var fault bool
	for i, by := range p.by {
		if p.values[i], fault = p.Value(by, p.items[i]); fault {
			c.unevaluated++
			return
		}
	}
	if p.value == nil {
		c.Add(p.number, p.values, nil, expr.Type{}, 0)
		return
	}
	bits, fault := p.Number(p.value)
	if fault {
		c.unevaluated++
		return
	}
	c.Add(p.number, p.values, c.expressions.Buckets, p.value.Type(), bits)
}
