package latency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// streamed pairs the events of a stream. It is an events.Consumer.
type streamed struct {
	count.Table[*operation]
	latency *latency
	stream  *events.Stream
	pairs   *pairing.Pairs
	// unfit are the probes that are left out, of the late ones that came since the last Tick.
	unfit query.Unfit
	late  int
}

// runStream measures the operations of a stream.
func (l *latency) runStream(ctx context.Context, stream *events.Stream) error {
	r := &streamed{latency: l, stream: stream}
	l.source, l.past = r, stream.Past
	if err := r.pair(stream.Probes(), l.where); err != nil {
		return err
	}
	for _, o := range l.kinds.all {
		r.Number(o)
	}
	stream.Announce()
	if err := stream.Run(ctx, r); err != nil {
		return err
	}
	if err := l.show(true); err != nil {
		return err
	}
	if l.format.IsJSON() {
		if err := stream.Losses().Encode(l.Out); err != nil {
			return err
		}
	}
	err := stream.Report(replay.LowerBounds, 0)
	r.report()
	l.past.Report(l.Console)
	return err
}

func (r *streamed) Know(*recording.Probe) {}

func (r *streamed) Gone(f *replay.File) { r.pairs.Gone(f) }

// Event pairs an event. A program may have new probes. They are left out if they lack something
// that the expressions use.
func (r *streamed) Event(event *events.Event) error {
	e := event.Event
	if !r.pairs.Knows(e.Probe) {
		r.meet(e.Probe)
	}
	o := r.pairs.Add(e, event.File)
	if o.HasEnded {
		if !event.File.InPast() {
			kind, buckets := o.Ended.Start.Kind.Number, r.latency.options.Buckets
			r.Add(kind, o.Ended.By, buckets, query.Elapsed, uint64(o.Ended.Took))
		}
		o.Ended.Start.Reuse()
	}
	if o.Replaced != nil {
		o.Replaced.Reuse()
	}
	return nil
}

// meet adds a probe that has come late, or leaves it out.
func (r *streamed) meet(p *recording.Probe) {
	r.late++
	side, err := r.side(p)
	if err == nil {
		o := r.latency.kinds.all[side.Kind]
		r.Number(o)
		err = r.pairs.AddSide(side)
		o.unfit = r.pairs.Unfit(side.Kind)
	}
	if err != nil {
		r.unfit.Add(err)
		r.pairs.Ignore(p)
	}
}

func (r *streamed) Tick() (next time.Duration, more bool, err error) {
	r.warnUnfit()
	return r.latency.tick()
}

// warnUnfit warns of late probes that are left out, in one line: a program can have many.
func (r *streamed) warnUnfit() {
	if line := r.unfit.Take(r.late); line != "" {
		r.latency.Warn("%s", line)
	}
	r.late = 0
}

// side returns the side of an operation to which a probe belongs.
func (r *streamed) side(p *recording.Probe) (side pairing.Side, err error) {
	isStart, err := r.latency.pairs.isStart(p.Provider, p.Name)
	if err != nil {
		return side, err
	}
	kind, err := r.latency.kinds.find(p.Provider+":"+p.Name, isStart)
	return pairing.Side{Probe: p, Kind: int(kind), IsStart: isStart}, err
}

// pair prepares to pair the events of probes.
func (r *streamed) pair(all []*recording.Probe, where string) (err error) {
	l := r.latency
	var sides []pairing.Side
	for _, p := range all {
		side, err := r.side(p)
		if err != nil {
			return err
		}
		sides = append(sides, side)
	}
	var unfit query.Unfit
	asked := query.Pairing{
		Key: l.pairs.key, Where: query.SplitWhere(where), By: l.options.By, Details: true,
	}
	r.pairs, err = pairing.NewPairs(pairing.Plan{Pairing: asked, Unfit: &unfit}, sides)
	for i, o := range l.kinds.all {
		o.unfit = err == nil && r.pairs.Unfit(i)
	}
	if line := unfit.Take(len(sides)); line != "" && l.Console != nil {
		l.Warn("%s", line)
	}
	switch {
	case errors.Is(err, query.ErrNothing):
		return cmp.Or(l.pairs.missing(all), err)
	case l.pairs.keyless != nil:
		return l.pairs.keyless
	case err != nil:
		return query.Usagef("%w", err)
	}
	return nil
}

// missing returns the error that none of the probes is a start, or an end, or nil.
func (p *pairs) missing(all []*recording.Probe) error {
	for _, c := range []*spec.Choice{&p.start, &p.end} {
		matches := func(p *recording.Probe) bool { return c.Match(p.Provider, p.Name) }
		if !slices.ContainsFunc(all, matches) {
			return fmt.Errorf("%w: there is no %v", query.ErrNothing, c)
		}
	}
	return nil
}

// report warns of operations that are not included.
func (r *streamed) report() {
	to := r.latency.Console
	r.warnUnfit()
	if r.Lost > 0 {
		to.Warn("%d events were lost, because there are too many different values of --by", r.Lost)
	}
	pairing.WarnFull(to, r.pairs.Open.Full)
	pairing.WarnUnknown(to, r.pairs.Unknown, r.latency.pairs.key)
	evaluate.Unevaluated(to, r.pairs.Unevaluated)
}

// detached returns nil, because only the kernel detaches.
func (r *streamed) detached(*operation) *query.Detachment { return nil }

func (r *streamed) unpaired() ([]unpaired, error) {
	all := make([]unpaired, len(r.latency.kinds.all))
	for i := range all {
		totals := r.pairs.Totals(i)
		all[i].starts, all[i].ends = totals.Starts-totals.Pairs, totals.Ends
	}
	open := slices.Collect(r.pairs.Selected())
	pairing.SortOpen(open)
	for _, o := range open {
		all[o.Kind.Number].add(o)
	}
	return all, nil
}
