//go:build linux

package latency

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/operations"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/past"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/internal/clock"
)

// traced pairs the events of processes in the kernel. It is an engine.Subscriber and an
// engine.Ticker.
type traced struct {
	count.Tables[*operation]
	latency    *latency
	run        *run.Run
	operations operations.Operations
	plans      map[uint32]*bpf.Latency // the plan of each kind, for its first start
	full       uint64                  // starts for which there was no room
	seeds      seeds
	found      []int // the processes that were found before the run began
}

// runTraced measures the operations of processes.
func (l *latency) runTraced(
	ctx context.Context, config query.Config, route source.Route,
) (err error) {
	defer func() { err = source.Refuse(err, &config) }()
	t := &traced{latency: l, plans: map[uint32]*bpf.Latency{}}
	t.Detached = t.detached
	t.seeds = seeds{t: t, kinds: map[uint32]uint64{}, files: map[int]*replay.File{}}
	l.source = t
	o := run.Options{Machine: route.Machine, Together: true, Pairs: true, Whole: !l.pairs.named}
	if t.run, err = run.New(l.Console, config, o); err != nil {
		return err
	}
	defer t.run.Close()
	defer t.operations.Close()
	defer t.Close()
	began := clock.Now()
	if err := t.run.Attach(t, t.processFound); err != nil {
		return err
	}
	t.begin(began)
	t.run.Announce()
	t.run.Ending = func() error { return t.operations.Tables.Stop() }
	if err := t.run.Wait(ctx, t); err != nil {
		return err
	}
	if err := l.show(true); err != nil {
		return err
	}
	return t.report()
}

// begin adds the operations that the recordings of processes have open.
func (t *traced) begin(began time.Duration) {
	from := past.NewReader(t.run.Specs, began)
	t.latency.past = from.Past
	if t.latency.pairs.functions || t.run.Command != nil {
		return
	}
	slices.Sort(t.found)
	for _, pid := range slices.Compact(t.found) {
		t.seeds.begin(pid, from)
	}
}

// report warns of operations that are not included.
func (t *traced) report() error {
	stats, err := layout.ReadStats(t.run.Env.Stats)
	if err != nil {
		return err
	}
	err = count.Report(t.run, stats, "values of --by")
	t.latency.past.Report(t.run.Console)
	pairing.WarnFull(t.run.Console, t.full)
	return err
}

func (t *traced) detached(o *operation) *query.Detachment { return t.run.Detached(o.start, o.end) }

func (t *traced) FDs() []int { return nil }

func (t *traced) Tick() (next time.Duration, more bool, err error) {
	if err := t.operations.Purge(); err != nil {
		return 0, false, err
	}
	return t.latency.tick()
}

func (t *traced) processFound(pid int) error {
	if !t.run.Began() {
		t.found = append(t.found, pid)
	}
	if !slices.Contains(t.latency.pairs.key, query.Goroutine) {
		return nil
	}
	err := t.operations.ProcessFound(t.run.Env, pid)
	switch {
	case err == nil:
		return nil
	case !t.run.All && !t.run.Began():
		return query.Usagef("%w; give --key arg0 or another expression, or --key thread", err)
	}
	t.Problem(fmt.Errorf("%w; its events are not included", err))
	return nil
}

func (t *traced) Problem(err error) { t.run.Problem(err) }

func (t *traced) Section(p *bpf.Probe) (*bpf.Section, error) {
	if err := t.operations.Prepare(t.run.Selector, t.pairing()); err != nil {
		return nil, err
	}
	if err := t.latency.pairs.keyless; err != nil {
		return nil, err
	}
	isStart, err := t.latency.pairs.isStart(p.Provider, p.Name)
	if err != nil {
		return nil, err
	}
	kind, err := t.latency.kinds.find(p.String(), isStart)
	if err != nil {
		return nil, err
	}
	section, err := t.section(p, kind, isStart)
	t.latency.kinds.all[kind].take(isStart, err)
	return section, err
}

// pairing returns the description of the pairs.
func (t *traced) pairing() query.Pairing {
	return query.Pairing{
		Key: t.latency.pairs.key, Where: query.SplitWhere(t.run.Where), By: t.latency.options.By,
		Details: true, Kinds: strings.ContainsAny(t.latency.pairs.start.String(), "*?["),
	}
}

// section returns the code for the events of one side of a kind.
func (t *traced) section(p *bpf.Probe, kind uint32, isStart bool) (*bpf.Section, error) {
	plan, of := t.operations.Plan, bpf.Operations{OperationTables: t.operations.Tables, Kind: kind}
	if isStart {
		own := t.plans[kind]
		if own == nil {
			own = plan.Of(p)
		}
		section, err := own.Start(t.run.Env, of, p)
		if err == nil {
			t.plans[kind] = own
		}
		return section, err
	}
	a, err := plan.NewEnd(p, query.Counting{Buckets: t.latency.options.Buckets})
	if err != nil {
		return nil, err
	}
	end := func(rows *layout.Tables, id uint32) (*bpf.Section, error) {
		return plan.End(t.run.Env, of, a, rows, id)
	}
	return t.Add(a, t.latency.kinds.all[kind], p.Name, end)
}

// unpaired reads the unpaired events.
func (t *traced) unpaired() ([]unpaired, error) {
	all := make([]unpaired, len(t.latency.kinds.all))
	if t.operations.Plan == nil {
		return all, nil
	}
	t.full = 0
	for i := range all {
		totals, err := layout.ReadTotals(t.operations.Tables.Totals, uint32(i))
		if err != nil {
			return nil, err
		}
		// An end may have been counted during the reading, but not its start.
		starts := totals.Starts + t.seeds.kinds[uint32(i)]
		all[i].starts, all[i].ends = starts-min(starts, totals.Pairs), totals.Ends
		t.full += totals.Full
	}
	open, err := t.operations.Open()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(open, func(a, b layout.Open) int { return cmp.Compare(a.Since, b.Since) })
	processes := &replay.File{} // stands for all others
	now := cmp.Or(t.run.Ended, clock.Now())
	processes.Passed(now)
	for i := range open {
		o := &open[i]
		if o.Since == 0 || int(o.Kind) >= len(all) {
			continue
		}
		f := cmp.Or(t.seeds.files[o.PID], processes)
		f.Passed(now)
		u := &all[o.Kind]
		if at, isShown := u.count(f.Keeps(o.Since)); isShown {
			u.show(at, t.opened(o, f))
		}
	}
	return all, nil
}

// opened converts an operation of the kernel to the form of operations whose events were
// read.
func (t *traced) opened(o *layout.Open, f *replay.File) *pairing.Operation {
	plan := t.plans[o.Kind]
	s := &pairing.Operation{
		File: f, Since: o.Since, PID: uint32(o.PID), TID: uint32(o.TID),
		Details: make([]evaluate.Value, len(plan.Open)), Columns: t.columns(plan),
	}
	for i := range plan.Key {
		s.Key = append(s.Key, evaluate.ValueIn(&plan.Key[i], o.Key))
	}
	for i := range plan.Open {
		if o.Known(i) {
			s.Details[i] = evaluate.ValueIn(&plan.Open[i], o.Value)
		}
	}
	return s
}

// columns returns the columns that describe the open operations of a plan.
func (t *traced) columns(plan *bpf.Latency) *pairing.Columns {
	key := pairing.KeyName(t.latency.pairs.key, t.operations.Start.ArgName)
	c := &pairing.Columns{Key: key, By: plan.OpenBy}
	for _, item := range plan.Open {
		c.Names = append(c.Names, item.Name)
	}
	return c
}
