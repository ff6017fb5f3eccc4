//go:build linux

package count

import (
	"context"
	"encoding/binary"
	"io"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/recorded"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// recordedCounter counts the events of recordings.
type recordedCounter struct {
	*console.Console
	source      *recorded.Source
	expressions *Expressions
	probes      map[*recording.Probe]*recordedProbe
	rows        map[string]*Row[Probe] // by the probe and the values of --by
	key         []byte
	unevaluated uint64
}

// recordedProbe is what is evaluated for the events of a probe.
type recordedProbe struct {
	of     Probe
	number uint64
	by     []*expr.Expr
	items  []record.Item
	value  *expr.Expr
	event  *recording.Event
	get    func(i int) expr.Value
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
	c := &recordedCounter{Console: to, source: source, expressions: &o.Expressions, probes: map[*recording.Probe]*recordedProbe{}, rows: map[string]*Row[Probe]{}}
	if _, err := source.More(); err != nil {
		return err
	}
	for n := 0; n%1024 != 0 || ctx.Err() == nil; n++ {
		e, _, err := source.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := c.add(e); err != nil {
			return err
		}
	}
	r := newReporter(to, c, o)
	if err := r.show(true); err != nil {
		return err
	}
	return c.Report("")
}

// Rows implements source.
func (c *recordedCounter) Rows() ([]*Row[Probe], error) {
	all := make([]*Row[Probe], 0, len(c.rows))
	for _, r := range c.rows {
		all = append(all, r)
	}
	slices.SortFunc(all, compareRows)
	return all, nil
}

// Report implements source.
func (c *recordedCounter) Report(string) error {
	if lost := c.source.Lost(); lost > 0 {
		c.Warn("the recording has lost %d events, the oldest ones: the numbers are lower bounds", lost)
	}
	if c.unevaluated > 0 {
		c.Warn("%d events were left out, because an expression divided by zero or shifted by a negative count", c.unevaluated)
	}
	return nil
}

// probe returns what is evaluated for the events of a probe.
func (c *recordedCounter) probe(p *recording.Probe) (*recordedProbe, error) {
	if known := c.probes[p]; known != nil {
		return known, nil
	}
	r := &recordedProbe{of: Probe{p.Provider, p.Name}, number: uint64(len(c.probes))}
	r.get = func(i int) expr.Value { return recorded.Variable(r.event, i) }
	parse := func(src string) (*expr.Expr, error) {
		e, err := expr.Parse(src, recorded.Variables(p))
		if err != nil {
			err = usage.Errorf("%v: %w", r.of, err)
		}
		return e, err
	}
	for _, src := range c.expressions.By {
		e, err := parse(src)
		if err != nil {
			return nil, err
		}
		r.by = append(r.by, e)
		r.items = append(r.items, record.Item{Name: src, Type: e.Type(), TextSize: record.TextSize})
	}
	if c.expressions.Buckets != nil {
		e, err := parse(c.expressions.Value)
		if err != nil {
			return nil, err
		}
		if kind := e.Type().Kind; kind != expr.Int && kind != expr.Uint {
			return nil, usage.Errorf("%v: a histogram needs an integer, and %s is of type %v", r.of, c.expressions.Value, e.Type())
		}
		if err := record.Fits(c.expressions.Buckets, e.Type()); err != nil {
			return nil, usage.Errorf("%v: %w", r.of, err)
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
		return err
	}
	p.event = e
	c.key = binary.NativeEndian.AppendUint64(c.key[:0], p.number)
	var values [8]expr.Value
	list := values[:0]
	for _, by := range p.by {
		v, fault := by.Eval(p.get)
		if fault {
			c.unevaluated++
			return nil
		}
		list = append(list, v)
		c.key = binary.NativeEndian.AppendUint64(c.key, v.Uint())
		c.key = binary.NativeEndian.AppendUint64(c.key, uint64(len(v.Text())))
		c.key = append(c.key, v.Text()...)
	}
	bucket, sum := 0, uint64(0)
	if p.value != nil {
		v, fault := p.value.Eval(p.get)
		if fault {
			c.unevaluated++
			return nil
		}
		sum = v.Uint()
		bucket = c.expressions.Buckets.Of(p.value.Type(), sum)
	}
	row := c.rows[string(c.key)]
	if row == nil {
		row = c.newRow(p, list)
		c.rows[string(c.key)] = row
	}
	row.Count++
	b := row.Buckets[bucket]
	row.Buckets[bucket] = Bucket{b.Count + 1, b.Sum + sum}
	return nil
}

func (c *recordedCounter) newRow(p *recordedProbe, values []expr.Value) *Row[Probe] {
	row := &Row[Probe]{Of: p.of, Buckets: map[int]Bucket{}, key: string(c.key)}
	if p.value != nil {
		row.Value = p.value.Type()
	}
	for i, v := range values {
		text, cut := []byte(v.Text()), false
		if len(text) > record.TextSize {
			text, cut = record.WholeRunes(text[:record.TextSize]), true
		}
		bits := recorded.Bits(p.items[i].Type, v)
		row.Text = append(row.Text, string(render.KeyText(&p.items[i], bits, text, cut)))
		row.JSON = append(row.JSON, render.KeyJSON(&p.items[i], bits, text))
	}
	return row
}
