//go:build linux

package count

import (
	"context"
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/recorded"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// recordedCounter counts the events of recordings.
type recordedCounter struct {
	*console.Console
	Recorded[Probe]
	source      *recorded.Source
	expressions *Expressions
	probes      map[*recording.Probe]*recordedProbe
	unevaluated uint64
}

// recordedProbe is what is evaluated for the events of a probe.
type recordedProbe struct {
	*recorded.Evaluator
	number int // in Recorded
	by     []*expr.Expr
	items  []*record.Item
	value  *expr.Expr
	values []recorded.Value
}

// runRecorded counts the events of the recordings in o.From.
func runRecorded(ctx context.Context, to *console.Console, config *run.Config, o Options) error {
	if config.Given() || config.Single || config.Duration > 0 || o.Interval > 0 {
		return usage.Errorf("-p, -a, -d and -i are for processes, and --from reads recordings")
	}
	source, err := recorded.Open(o.From, config.Specs, config.Where)
	if err != nil {
		return err
	}
	defer source.Close()
	c := &recordedCounter{Console: to, source: source, expressions: &o.Expressions, probes: map[*recording.Probe]*recordedProbe{}}
	err = source.Each(ctx, func(e *recording.Event, _ *recorded.File) error { return c.add(e) })
	if err != nil {
		return err
	}
	r := newReporter(to, c, o)
	if err := r.show(true); err != nil {
		return err
	}
	return c.Report("values of --by")
}

// Report implements source.
func (c *recordedCounter) Report(what string) error {
	c.source.Report(c.Console)
	if c.Lost > 0 {
		c.Warn("%d events were lost, because there are too many different %s", c.Lost, what)
	}
	recorded.Unevaluated(c.Console, c.unevaluated)
	return nil
}

// probe returns what is evaluated for the events of a probe.
func (c *recordedCounter) probe(p *recording.Probe) (*recordedProbe, error) {
	if known := c.probes[p]; known != nil {
		return known, nil
	}
	r := &recordedProbe{Evaluator: recorded.NewEvaluator(p), number: c.Number(Probe{p.Provider, p.Name})}
	for _, src := range c.expressions.By {
		e, err := r.Parse(src)
		if err != nil {
			return nil, err
		}
		r.by, r.items = append(r.by, e), append(r.items, recorded.NewItem(src, e.Type()))
	}
	r.values = make([]recorded.Value, len(r.by))
	if c.expressions.Buckets != nil {
		e, err := r.ParseInteger(c.expressions.Value, "a histogram")
		if err != nil {
			return nil, err
		}
		if err := record.Fits(c.expressions.Buckets, e.Type()); err != nil {
			return nil, fmt.Errorf("%s:%s: %w", p.Provider, p.Name, err)
		}
		r.value = e
	}
	c.probes[p] = r
	return r, nil
}

// add counts an event.
func (c *recordedCounter) add(e *recording.Event) error {
	p, err := c.probe(e.Probe)
	if err != nil {
		return usage.Errorf("%w", err)
	}
	p.At(e)
	var fault bool
	for i, by := range p.by {
		if p.values[i], fault = p.Value(by, p.items[i]); fault {
			c.unevaluated++
			return nil
		}
	}
	if p.value == nil {
		c.Add(p.number, p.values, nil, expr.Type{}, 0)
		return nil
	}
	bits, fault := p.Number(p.value)
	if fault {
		c.unevaluated++
		return nil
	}
	c.Add(p.number, p.values, c.expressions.Buckets, p.value.Type(), bits)
	return nil
}
