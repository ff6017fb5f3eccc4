//go:build linux

package latency

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/operations"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/recorded"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// fromRecordings pairs the events of recordings.
type fromRecordings struct {
	count.Recorded[*operation]
	latency *latency
	pairs   *recorded.Pairs
}

// runRecorded measures the operations of the recordings in the options.
func (l *latency) runRecorded(ctx context.Context, config *run.Config) error {
	if config.Given() || config.Single || config.Duration > 0 || l.options.Interval > 0 {
		return usage.Errorf("-p, -a, -d and -i are for processes, and --from reads recordings")
	}
	specs := slices.Clone(l.pairs.specs)
	for _, other := range l.pairs.others {
		specs = append(specs, other)
	}
	source, err := recorded.Open(l.options.From, specs, "")
	if err != nil {
		return err
	}
	defer source.Close()
	r := &fromRecordings{latency: l}
	l.source = r
	if r.pairs, err = l.pair(source, config.Where); err != nil {
		return err
	}
	for _, o := range l.kinds.all {
		r.Number(o)
	}
	err = source.Each(ctx, func(e *recording.Event, f *recorded.File) error {
		if ended, ok := r.pairs.Add(e, f); ok {
			r.Add(ended.Kind, ended.By, l.options.Buckets, recorded.Elapsed, uint64(ended.Took))
		}
		return nil
	})
	if err == nil {
		err = l.show(true)
	}
	if err != nil {
		return err
	}
	source.Report(l.Console)
	r.report()
	return nil
}

// pair returns what pairs the events of the recordings.
func (l *latency) pair(source *recorded.Source, where string) (*recorded.Pairs, error) {
	selector, err := probes.NewSelector(l.pairs.specs, l.pairs.others)
	if err != nil {
		return nil, usage.Errorf("%w", err)
	}
	var sides []recorded.Side
	for _, p := range source.Probes() {
		isStart, err := operations.IsStart(selector, p.Provider, p.Name)
		if err != nil {
			return nil, err
		}
		kind, err := l.kinds.find(selector, p.Provider+":"+p.Name, isStart)
		if err != nil {
			return nil, err
		}
		sides = append(sides, recorded.Side{Probe: p, Kind: int(kind), IsStart: isStart})
	}
	pairs, err := recorded.NewPairs(bpf.Pairing{Key: l.pairs.key, Where: bpf.SplitWhere(where), By: l.options.By, Details: true}, sides)
	if err != nil {
		return nil, usage.Errorf("%w", err)
	}
	return pairs, nil
}

// report says which operations are not included.
func (r *fromRecordings) report() {
	to := r.latency.Console
	if r.Lost > 0 {
		to.Warn("%d events were lost, because there are too many different values of --by", r.Lost)
	}
	if r.pairs.Full > 0 {
		to.Warn("%d starts are not included, because more than %d operations were open", r.pairs.Full, bpf.MaxOpen)
	}
	if r.pairs.Unknown > 0 {
		to.Warn("%d events are not included, because the recording does not have their %ss", r.pairs.Unknown, r.latency.pairs.key)
	}
	recorded.Unevaluated(to, r.pairs.Unevaluated)
}

func (r *fromRecordings) unpaired() ([]unpaired, error) {
	all := make([]unpaired, len(r.latency.kinds.all))
	for i := range all {
		totals := r.pairs.Totals(i)
		all[i].starts, all[i].ends = totals.Starts-totals.Pairs, totals.Ends
	}
	var open []*recorded.Operation
	r.pairs.Open(func(o *recorded.Operation) { open = append(open, o) })
	slices.SortFunc(open, func(a, b *recorded.Operation) int {
		return cmp.Or(-cmp.Compare(a.For(), b.For()), cmp.Compare(a.Since, b.Since))
	})
	for _, o := range open {
		u := &all[o.Kind]
		if u.open++; len(u.oldest) == longest {
			continue
		}
		shown := opened{since: o.For(), pid: int(o.PID), tid: int(o.TID), goroutine: o.Goroutine, key: value{o.Key.ForText(), o.Key.ForJSON()}}
		for i := range o.Details {
			one := value{}
			if v := &o.Details[i]; v.Item != nil {
				one = value{v.ForText(), v.ForJSON()}
			}
			shown.details = append(shown.details, one)
		}
		u.oldest = append(u.oldest, shown)
	}
	return all, nil
}

func (r *fromRecordings) details() details { return details{r.pairs.Columns, r.pairs.By} }

func (r *fromRecordings) keyName() string {
	if key := r.latency.pairs.key; key != "arg0" {
		return key
	}
	return r.pairs.KeyName
}
