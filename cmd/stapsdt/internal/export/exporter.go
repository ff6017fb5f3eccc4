//go:build linux

// Package export makes metrics and spans from the events of probes, according to a file of rules.
package export

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/metric"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/span"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/meter"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// exporter makes metrics and spans of probes by rules, which can change at any time. One goroutine
// runs the engine and reads the spans; other goroutines collect the metrics.
type exporter struct {
	*rule.Host
	engine *engine.Engine
	finder *target.Finder
	// the control groups made since the exporter began, or nil if the kernel does not report them
	made   *bpf.Groups
	purged time.Time

	mu      sync.RWMutex // guards the rules
	metrics []*metric.Traced
	spans   []*span.Rule
	traces  *span.Traces
	state   rulesState
	lacking lacking
	cost    cost
}

// anyRule is a metric or a rule for spans.
type anyRule interface {
	engine.Subscriber
	Common() *rule.Base
	// Purge removes the data of processes that have ended.
	Purge() error
	// Unwatched removes what is open of the calls of functions in processes, because their ends are
	// not seen. probes are the names of the probes.
	Unwatched(probes []string, pids map[int]bool)
	Close()
}

func newExporter(to *console.Console, file string) *exporter {
	e := &exporter{
		Host: &rule.Host{
			Console: to, Complaints: rule.NewComplaints(to), File: file,
			Spans: func(expose.Span) {},
		},
		state: rulesState{path: file}, traces: span.NewTraces(),
	}
	e.cost = cost{exporter: e, metered: map[*target.File]*metered{}}
	e.cost.keeper = meter.Keeper{
		Owner: &e.cost, ByFile: true, Interval: meter.Interval, Share: 50,
	}
	return e
}

func (e *exporter) rules() []anyRule { return allRules(e.metrics, e.spans) }

func allRules(metrics []*metric.Traced, spans []*span.Rule) (all []anyRule) {
	for _, m := range metrics {
		all = append(all, m)
	}
	for _, s := range spans {
		all = append(all, s)
	}
	return all
}

// open reads the rules and attaches to the probes that exist.
func (e *exporter) open() (err error) {
	if e.Machine, err = bpf.NewMachine(false); err != nil {
		return err
	}
	if e.Machine.Namespace != nil {
		e.Warn("this PID namespace is not the machine's: processes outside of it are not found, so run the exporter in that of the machine (hostPID: true, or --pid=host)")
	}
	if e.made, err = bpf.FollowGroups(); err != nil {
		e.made = nil
		if errors.Is(err, bpf.ErrLockdown) {
			e.Warn("a container that ends before its control group is read has no name: %v", err)
		}
	}
	e.Cgroups = cgroup.New(e.made.Path, cgroup.NewPods(cgroup.Links))
	e.cost.keeper.Kernel = engine.BPF{Kernel: e.Machine.Kernel}
	e.finder = target.NewTracer()
	e.finder.Limit()
	e.finder.Lacks = e.lacks
	e.engine, err = engine.New(engine.Options{
		Files: e.finder, Skips: e.finder.Skips(), Broken: e.finder.Broken(),
		Kernel:    &e.cost.keeper,
		Processes: engine.Everyone{}, Scan: true, Found: e.cost.found, Follows: e.cost.follows,
		Watch: engine.WatchProcesses, Daemon: true,
		Problem: func(err error) { e.Complaints.Complain(console.Explain(err).Error()) },
	})
	if err != nil {
		return err
	}
	e.state.due()
	if err := e.load(); err != nil {
		return err
	}
	found, err := e.engine.Scan()
	if err == nil {
		err = found.Blind()
	}
	if err != nil {
		return err
	}
	if warning := found.Warning("traced"); warning != "" {
		e.Warn("%s", warning)
	}
	return nil
}

// load reads the rules file. If it is wrong, the rules in force stay. A rule that is unchanged
// continues to count.
func (e *exporter) load() error {
	file, err := rules.Read(e.File)
	if err != nil {
		return err
	}
	if err := e.cost.prepare(file); err != nil {
		return err
	}
	metrics, err := renewed(
		file.Metrics,
		e.metrics,
		(*metric.Traced).Follows,
		func(text rules.Metric) (*metric.Traced, error) { return metric.New(e.Host, text) },
	)
	var spans []*span.Rule
	if err == nil {
		spans, err = renewed(
			file.Spans,
			e.spans,
			(*span.Rule).Follows,
			func(text rules.Span) (*span.Rule, error) { return span.New(e.Host, e.traces, text) },
		)
	}
	old, now := e.rules(), allRules(metrics, spans)
	fresh := slices.DeleteFunc(
		slices.Clone(now), func(r anyRule) bool { return slices.Contains(old, r) },
	)
	gone := slices.DeleteFunc(old, func(r anyRule) bool { return slices.Contains(now, r) })
	if err != nil {
		for _, r := range fresh {
			r.Close()
		}
		return err
	}
	for _, r := range fresh {
		r.Common().Subscription = e.engine.Add(r, r.Common().Selection)
	}
	e.mu.Lock()
	e.metrics, e.spans, e.state.at = metrics, spans, time.Now()
	e.mu.Unlock()
	e.selectFunctions()
	var ended []*engine.Subscription
	for _, r := range gone {
		ended = append(ended, r.Common().Subscription)
	}
	e.engine.Remove(ended...)
	for _, r := range gone {
		r.Close()
	}
	return nil
}

// renewed returns a rule for each definition in a file: the rule in force that follows it, or a new
// one. After an error, it returns the rules for the definitions before the wrong one.
func renewed[R, T any](
	texts []T, force []R, follows func(R, T) bool, make func(T) (R, error),
) (now []R, err error) {
	for _, text := range texts {
		i := slices.IndexFunc(force, func(r R) bool { return follows(r, text) })
		if i >= 0 {
			now = append(now, force[i])
			continue
		}
		fresh, err := make(text)
		if err != nil {
			return now, err
		}
		now = append(now, fresh)
	}
	return now, nil
}

func (e *exporter) reload() {
	if e.state.reloaded(e.Console, e.load()) {
		e.Warn("read %s: %s, %s", e.File, render.Number(len(e.metrics), "metric"), render.Number(len(e.spans), "span rule"))
	}
}

// group updates the selected control groups. It must run before their processes fire, so that their
// events are counted, and before the groups are removed, so that their containers are known.
func (e *exporter) group() {
	e.Cgroups.Pods().Refresh() // before the links of removed containers disappear
	if !e.Cgroups.Changed() {
		return
	}
	now := e.Cgroups.All()
	for _, r := range e.rules() {
		r.Common().Regroup(now)
	}
}

func (e *exporter) FDs() (fds []int) {
	for _, s := range e.spans {
		fds = append(fds, s.Ring.FDs()...)
	}
	return fds
}

func (e *exporter) Tick() (next time.Duration, more bool, err error) {
	next = engine.Interval
	e.group()
	if err := span.Read(e.spans, false); err != nil {
		e.Complaints.Complain(console.Explain(err).Error())
	}
	for _, s := range e.spans {
		next = s.Ring.Next(next)
	}
	if e.state.due() {
		e.reload()
	}
	if time.Since(e.purged) >= engine.Interval {
		e.purged = time.Now()
		e.purge()
	}
	return min(next, e.cost.check()), true, nil
}

func (e *exporter) purge() {
	e.cost.purge()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.rules() {
		if err := r.Purge(); err != nil {
			r.Problem(err)
		}
	}
}

// settleTime is the time an exporter takes to read the kernel's types and to attach to running
// programs. The memory for this is released afterwards, because an exporter may run for months.
const settleTime = time.Second

func (e *exporter) run(ctx context.Context, hangup <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go eachHangup(ctx, hangup, func() {
		e.state.hangup.Store(true)
		e.engine.Wake()
	})
	defer time.AfterFunc(settleTime, debug.FreeOSMemory).Stop()
	return e.engine.Run(ctx, e)
}

// detach ends the attachments. The metrics can still be collected.
func (e *exporter) detach() error {
	var errs []error
	for _, m := range e.metrics {
		errs = append(errs, m.Stop())
	}
	errs = append(errs, e.engine.Detach())
	e.Cgroups.End()
	return errors.Join(append(errs, span.Read(e.spans, true))...)
}

// close releases everything. It waits for a scrape that is being answered.
func (e *exporter) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.engine != nil {
		e.engine.Close()
	}
	if e.finder != nil {
		e.finder.Close()
	}
	for _, r := range e.rules() {
		r.Close()
	}
	e.cost.close()
	if e.made != nil {
		e.made.Close()
	}
}
