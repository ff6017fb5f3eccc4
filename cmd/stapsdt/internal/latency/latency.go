//go:build linux

// Package latency measures in the kernel how long operations take, which start at one probe and end
// at another.
package latency

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/operations"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"

	"github.com/cilium/ebpf"
)

// latency is what the command latency does. It is an engine.Subscriber.
type latency struct {
	run        *run.Run
	options    count.Options
	pairs      *pairs
	operations operations.Operations
	kinds      kinds
	tables     count.Tables[*operation]
	interval   *run.Interval
	screen     console.Screen
	full       uint64 // starts for which there was no room
}

// Run measures operations until the run ends, and shows their times. names are the command line's:
// the probes of the start and of the end, or the name that their __start and __end follow. key is
// what a start and its end have in common, or "".
func Run(ctx context.Context, to *console.Console, config run.Config, names []string, key string, o count.Options) (err error) {
	l := &latency{options: o, screen: console.Screen{Console: to}}
	if l.pairs, err = newPairs(names, key); err != nil {
		return err
	}
	if err := count.CheckLimit(o.Limit); err != nil {
		return err
	}
	if l.interval, err = run.NewInterval(o.Interval); err != nil {
		return err
	}
	if l.pairs.key == bpf.Goroutine && !config.Given() {
		return usage.Errorf("--key goroutine needs to know the processes: give -p PID, or -a for all")
	}
	if l.options.By, err = bpf.SplitExprs(o.By); err != nil {
		return err
	}
	l.kinds.named = l.pairs.named
	config.Specs, config.Others, config.Together = l.pairs.specs, l.pairs.others, true
	if l.run, err = run.New(to, config); err != nil {
		return err
	}
	defer l.run.Close()
	defer l.operations.Close()
	defer l.tables.Close()
	if err := l.run.Attach(l); err != nil {
		return err
	}
	l.run.Announce()
	if err := l.run.Wait(ctx, l); err != nil {
		return err
	}
	if err := l.show(true); err != nil {
		return err
	}
	return l.report()
}

// report says which operations are not included.
func (l *latency) report() error {
	stats, err := record.ReadStats(l.run.Env.Stats)
	if err != nil {
		return err
	}
	count.Lost(l.run, stats, "values of --by")
	if l.full > 0 {
		l.run.Warn("%d starts are not included, because more than %d operations were open", l.full, bpf.MaxOpen)
	}
	return nil
}

// FDs implements engine.Consumer.
func (l *latency) FDs() []int { return nil }

// Tick implements engine.Consumer.
func (l *latency) Tick() (next time.Duration, more bool, err error) {
	if err := l.operations.Sweep(); err != nil {
		return 0, false, err
	}
	due, next := l.interval.Due()
	if due {
		err = l.show(false)
	}
	return next, true, err
}

// Selector implements engine.Subscriber.
func (l *latency) Selector() *probes.Selector { return l.run.Selector }

// Together implements engine.Subscriber.
func (l *latency) Together() bool { return true }

// AsksProcesses implements engine.Subscriber.
func (l *latency) AsksProcesses() bool { return l.pairs.key == bpf.Goroutine }

// ProcessFound implements engine.Subscriber.
func (l *latency) ProcessFound(pid int) error {
	err := l.operations.ProcessFound(l.run.Env, pid)
	switch {
	case err == nil:
		return nil
	case !l.run.All && !l.run.Began():
		return usage.Errorf("%w; give --key arg0 or another expression, or --key thread", err)
	}
	l.Problem(fmt.Errorf("%w; its events are not included", err))
	return nil
}

// Problem implements engine.Subscriber.
func (l *latency) Problem(err error) { l.run.Problem(err) }

// Section implements engine.Subscriber.
func (l *latency) Section(p *bpf.Probe) (*bpf.Section, error) {
	err := l.operations.Prepare(l.run.Selector, bpf.Pairing{
		Key: l.pairs.key, Where: bpf.SplitWhere(l.run.Where), By: l.options.By, Details: true,
	})
	if err != nil {
		return nil, err
	}
	isStart, err := operations.IsStart(l.run.Selector, p)
	if err != nil {
		return nil, err
	}
	kind, err := l.kinds.find(l.run.Selector, p, isStart)
	if err != nil {
		return nil, err
	}
	plan, of := l.operations.Plan, bpf.Operations{OperationTables: l.operations.Tables, Kind: kind}
	if isStart {
		return plan.Start(l.run.Env, of, p)
	}
	a, err := plan.NewEnd(p, l.options.Buckets)
	if err != nil {
		return nil, err
	}
	return l.tables.Add(a, l.kinds.all[kind], p.Name, func(table *ebpf.Map, id uint32) (*bpf.Section, error) {
		return plan.End(l.run.Env, of, a, table, id)
	})
}

// keyName is the name of the argument that the key is, or its expression.
func (l *latency) keyName() string {
	if l.pairs.key == "arg0" {
		return l.run.Selector.Specs[0].First.ArgName(0)
	}
	return l.pairs.key
}

// pairs are the probes that belong together.
type pairs struct {
	named  bool // whether the command line names operations, and not their probes
	specs  []string
	others map[string]string // what the second stands for too
	key    string
}

// newPairs returns the specs of the start and of the end, and decides what pairs them.
func newPairs(names []string, key string) (*pairs, error) {
	p := &pairs{key: key}
	switch len(names) {
	case 1:
		p.named, p.specs = true, []string{names[0] + "__start", names[0] + "__end"}
		p.others = map[string]string{p.specs[1]: names[0] + "__done"}
	case 2:
		p.specs = names
	default:
		return nil, usage.Errorf("latency takes the probes of the start and of the end, or the name that their __start and __end follow")
	}
	if p.specs[0] == p.specs[1] {
		return nil, usage.Errorf("the start and the end are the same probe: %s", p.specs[0])
	}
	if p.key == "" {
		start, ok1 := strings.CutSuffix(p.specs[0], "_start")
		end, ok2 := strings.CutSuffix(p.specs[1], "_end")
		if !ok2 {
			end, ok2 = strings.CutSuffix(p.specs[1], "_done")
		}
		if !ok1 || !ok2 || start != end {
			return nil, usage.Errorf("no key pairs a start with its end: give --key arg0 or another expression, --key goroutine or --key thread")
		}
		p.key = "arg0"
	}
	return p, nil
}
