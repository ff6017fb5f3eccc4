//go:build linux

package functions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/operations"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
)

// traced measures calls in the kernel. It is an engine.Subscriber and an engine.Ticker.
type traced struct {
	count.Tables[*Function]
	session    *run.Run
	options    *count.Options
	operations operations.Operations
	all        []*Function // indexed by the IDs of their kinds
	kinds      map[string]uint32
	late       bool   // whether a function was attached to while its program ran
	full       uint64 // calls for which there was no room
	tick       func() (next time.Duration, more bool, err error)
}

// open attaches to the functions.
func open(
	to *console.Console, config query.Config, route source.Route, o *count.Options,
) (_ calls, err error) {
	defer func() { err = source.Refuse(err, &config) }()
	t := &traced{options: o, kinds: map[string]uint32{}}
	t.Detached = t.detached
	options := run.Options{
		Machine: route.Machine, Together: true, Pairs: true, MaxFunctions: maxFunctions,
	}
	if t.session, err = run.New(to, config, options); err != nil {
		return nil, err
	}
	if err = t.session.Attach(t, nil); err != nil {
		t.close()
		return nil, err
	}
	t.session.Ending = func() error { return t.operations.Tables.Stop() }
	return t, nil
}

func (t *traced) close() {
	t.Close()
	t.operations.Close()
	t.session.Close()
}

func (t *traced) run(
	ctx context.Context, tick func() (next time.Duration, more bool, err error),
) error {
	t.tick = tick
	if err := t.begin(); err != nil {
		return err
	}
	t.session.Announce()
	return t.session.Wait(ctx, t)
}

// begin begins to count when all functions are attached to: what a function calls must not be
// missing from its time. With a budget, calls were counted from the first function on, and are kept
// if the budget has detached functions meanwhile, which have no others.
func (t *traced) begin() error {
	tables := t.operations.Tables
	isDetached := func(f *Function) bool { return t.detached(f) != nil }
	if tables == nil || slices.ContainsFunc(t.all, isDetached) {
		return nil
	}
	if t.session.Budget > 0 {
		if err := tables.Stop(); err != nil {
			return err
		}
		time.Sleep(settling)
		if err := errors.Join(t.Clear(), tables.Clear()); err != nil {
			return err
		}
	}
	return tables.Go()
}

// settling is the time after which no program runs that has begun before the tables were stopped.
const settling = 10 * time.Millisecond

func (t *traced) FDs() []int { return nil }

func (t *traced) Tick() (next time.Duration, more bool, err error) {
	// The PIDs in it are those of the initial namespace.
	if t.operations.Due() && t.session.Env.Namespace == nil {
		if err := layout.PurgeInner(t.operations.Tables.Inner(), proc.Lives{}.Has); err != nil {
			return 0, false, err
		}
	}
	if err := t.operations.Purge(); err != nil {
		return 0, false, err
	}
	return t.tick()
}

func (t *traced) Problem(err error) { t.session.Problem(err) }

func (t *traced) detached(f *Function) *query.Detachment {
	return t.session.Detached(f.name, f.returns())
}

func (t *traced) Section(p *bpf.Probe) (*bpf.Section, error) {
	if err := t.prepare(); err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(p.String(), spec.ReturnSuffix)
	kind, known := t.kinds[name]
	if !known {
		if len(t.all) == query.MaxKinds {
			return nil, fmt.Errorf("too many different functions: at most %d are measured at a time", query.MaxKinds)
		}
		kind = uint32(len(t.all))
		t.kinds[name], t.all = kind, append(t.all, &Function{name: name})
	}
	side := 0
	if p.Function.Return {
		side = 1
	}
	f := t.all[kind]
	if p.Function.Endless { // its calls would cost, and have no time
		f.fit[0] = true
		return nil, nil
	}
	section, err := t.section(p, kind)
	f.fit[side] = f.fit[side] || err == nil
	// A COMMAND waits until it is attached to.
	t.late = t.late || t.session.Began() && (t.session.Command == nil || t.session.Await)
	return section, err
}

// prepare creates the tables. Without a budget, nothing is counted until begin.
func (t *traced) prepare() error {
	if t.operations.Plan != nil {
		return nil
	}
	specs := t.session.Selector.Specs
	probe := func(i int) *bpf.Probe {
		first := specs[i].First
		return engine.NewProbe(first.File, first.Site)
	}
	err := t.operations.PrepareFrom(probe(0), probe(len(specs)/2), query.Pairing{
		Key: []string{query.Call}, Where: query.SplitWhere(t.session.Where), By: t.options.By,
		Nested: true,
	})
	if err != nil || t.session.Began() || t.session.Budget > 0 {
		return err
	}
	return t.operations.Tables.Stop()
}

// section returns the code for the calls or the returns of a function. Without --by, it is the same
// for all functions, so that the kernel loads few programs.
func (t *traced) section(p *bpf.Probe, kind uint32) (*bpf.Section, error) {
	of := bpf.Operations{
		OperationTables: t.operations.Tables, Kind: kind, Numbered: len(t.options.By) == 0,
	}
	plan := t.operations.Plan
	if !p.Function.Return {
		return plan.Of(p).Start(t.session.Env, of, p)
	}
	a, err := plan.NewEnd(p, query.Counting{Buckets: t.options.Buckets})
	if err != nil {
		return nil, err
	}
	end := func(rows *layout.Tables, id uint32) (*bpf.Section, error) {
		return plan.End(t.session.Env, of, a, rows, id)
	}
	if of.Numbered {
		return t.Put(int(kind), a, t.all[kind], p.Name, end)
	}
	return t.Add(a, t.all[kind], p.Name, end)
}

func (t *traced) table() (*Table, error) {
	all := &Table{By: t.options.By, Where: t.session.Where != ""}
	rows, err := t.Rows()
	if err != nil {
		return nil, err
	}
	has := map[*Function]bool{}
	for _, r := range rows {
		has[r.Of] = true
		all.Rows = append(all.Rows, newRow(r, t.options.Buckets))
	}
	t.full = 0
	for kind, f := range t.all {
		totals, err := layout.ReadTotals(t.operations.Tables.Totals, uint32(kind))
		if err != nil {
			return nil, err
		}
		t.full += totals.Full
		all.add(f, totals, has[f], t.detached(f) != nil)
	}
	slices.Sort(all.Running)
	slices.Sort(all.Unseen)
	switch {
	case t.full > 0:
		all.AtMost = "some calls had no room"
	case all.detached > 0:
		all.AtMost = "calls of detached functions are not seen"
	case t.late:
		all.AtMost = "functions were attached to later than their callers"
	}
	return all, nil
}

// report warns of calls that are not in the table.
func (t *traced) report() error {
	stats, err := layout.ReadStats(t.session.Env.Stats)
	if err != nil {
		return err
	}
	err = count.Report(t.session, stats, "values of --by")
	pairing.WarnFull(t.session.Console, t.full)
	return err
}
