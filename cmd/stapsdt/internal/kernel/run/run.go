//go:build linux

// Package run runs a command: it attaches a subscriber to the probes that the command line
// selects, until Ctrl-C, the end of the processes, or the end of a duration.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/follow"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/operations"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/internal/clock"
)

// check returns the selector, or an error if the command line is invalid. It looks at no process.
func check(c *query.Config) (*probes.Selector, error) {
	selector, err := probes.Select(&c.Target, c.Specs)
	if err == nil {
		err = c.CheckDuration()
	}
	if err == nil && c.Budget > 0 && len(c.PIDs) == 0 {
		err = query.Usagef("--budget is a share of the processor time of processes: name them with -p")
	}
	if err == nil {
		err = c.CheckWhere()
	}
	return selector, err
}

// Options are the requirements of a verb.
type Options struct {
	// Machine is nil if it is not loaded yet.
	Machine *bpf.Machine
	// Together delays attaching until each spec has a probe.
	Together bool
	// Exprs are the expressions that are evaluated for the events, in addition to the condition.
	Exprs []string
	// Pairs means that the subscriber pairs starts with their ends itself.
	Pairs bool
	// Stacks means that the stacks of the events are counted.
	Stacks bool
	// Whole means that all probes are detached if they exceed the budget, instead of the most
	// expensive ones.
	Whole bool
	// MaxFunctions is the maximum number of functions that a spec may select, or 0 for the usual
	// number.
	MaxFunctions int
}

// Run is a run of a command.
type Run struct {
	query.Config
	Options
	*console.Console
	Selector *probes.Selector
	Env      *bpf.Env
	// Table has the stacks, if Options.Stacks is set.
	Table *layout.StackTable
	// Ending is called when the run ends, before it detaches. It may be nil.
	Ending func() error
	// Ended is the time when the run ended, by CLOCK_MONOTONIC, or 0. Detaching takes some time
	// after that.
	Ended time.Duration

	began        bool
	released     bool // whether the COMMAND was released
	finder       *target.Finder
	engine       *engine.Engine
	subscription *engine.Subscription
	debug        *debugfile.Finder
	processes    *follow.Processes // nil unless they are named
	cost         *cost
	ends         *operations.Ends // nil unless ends need their starts
	exits        *exits
	pods         *follow.Pods // nil unless the machine has pods
	reasons      []string     // why functions are missing, as far as that was said
}

// New prepares everything that does not depend on the probes. It returns an error if the command
// line is invalid, a process does not exist, or rights are missing.
func New(to *console.Console, c query.Config, o Options) (*Run, error) {
	r := &Run{Config: c, Options: o, Console: to}
	if err := r.open(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Run) open() (err error) {
	if r.Selector, err = check(&r.Config); err != nil {
		return err
	}
	// Report a process that does not exist before missing rights.
	for _, pid := range r.PIDs {
		if !proc.Alive(pid) {
			return fmt.Errorf("process %d: %w", pid, proc.ErrNoProcess)
		}
	}
	if r.debug, err = debugfile.Named(r.DebugFiles); err != nil {
		return err
	}
	if r.Machine == nil {
		r.Machine, err = bpf.NewMachine(r.Single)
	}
	if err == nil {
		r.Env, err = r.Machine.Env()
	}
	if err != nil {
		return r.orNothing(err)
	}
	r.Env.Debug = r.debug
	if err := r.needStarts(); err != nil {
		return err
	}
	r.finder = target.NewTracer()
	r.finder.Debug, r.finder.Source.Directories = r.debug, r.Sources
	r.finder.MaxFunctions = cmp.Or(r.MaxFunctions, r.finder.MaxFunctions)
	r.finder.SelectFunctions(r.Selector.FunctionSpecs())
	if r.All || len(r.Pods) > 0 {
		r.finder.Limit()
	}
	if r.cost, err = newCost(r, r.Machine.Kernel); err != nil {
		return err
	}
	if err := r.followPods(); err != nil {
		return err
	}
	r.exits = newExits(r)
	o := engine.Options{
		Files: r.finder, Skips: r.finder.Skips(), Broken: r.finder.Broken(),
		Kernel:    r.cost.keeper,
		Processes: engine.Everyone{},
		Scan:      r.All || len(r.Pods) > 0, Watch: engine.WatchProcesses, Problem: r.Problem,
	}
	if r.pods != nil {
		o.Processes = engine.Pods{Pods: r.pods}
	}
	if len(r.PIDs)+len(r.Names) > 0 {
		if o.Processes, err = r.followNamed(); err != nil {
			return err
		}
		o.Scan, o.Named, o.Patient = true, r.PIDs, r.isPatient()
	} else {
		o.Used = r.exits.use
	}
	r.engine, err = engine.New(o)
	return err
}

// needStarts prepares what the events of ends need of their starts.
func (r *Run) needStarts() (err error) {
	if r.Stacks {
		if r.Table, err = layout.NewStackTable(); err != nil {
			return bpf.MapError(err)
		}
	}
	if r.Pairs {
		return nil
	}
	stacks := r.Table
	if !slices.ContainsFunc(r.Specs, func(c spec.Choice) bool { return c.Returns }) {
		stacks = nil
	}
	r.ends = operations.NewEnds(append(slices.Clone(r.Exprs), r.Where), stacks, false)
	if r.ends != nil {
		r.Selector.Starts = r.ends.Needs
		// A start alone would be without use, and so would an end.
		r.ends.Paired = func() { r.cost.account.Whole = true }
	}
	return nil
}

// isPatient reports whether the named processes were all attached to before Run, so that their new
// files may wait while others map files.
func (r *Run) isPatient() bool { return len(r.Names) == 0 && r.Command == nil && !r.Await }

// followNamed begins to follow the processes that the user has named.
func (r *Run) followNamed() (engine.Processes, error) {
	for _, pid := range r.PIDs {
		if err := r.Env.Identifies(pid); err != nil {
			return nil, err
		}
	}
	var err error
	if r.processes, err = follow.Follow(r.PIDs, r.Env.Namespace, r.Problem); err != nil {
		return nil, err
	}
	r.Env.Processes, r.Env.Roots = r.processes.Set, r.PIDs
	family := engine.Family{Processes: r.processes}
	switch {
	case r.Command != nil:
		return engine.Launched{Family: family, Command: r.Command}, nil
	case len(r.Names) > 0:
		return engine.Called{Called: follow.Called{Processes: r.processes, Names: r.Names}}, nil
	}
	return family, nil
}

// Problem warns of an error that hides events.
func (r *Run) Problem(err error) { r.WarnError(err, r.Verbose) }

// Began reports whether Wait was called: the subscriber is then attached to existing probes, and is
// being attached to new ones.
func (r *Run) Began() bool { return r.began }

// sites returns the number of sites that are attached to.
func (r *Run) sites() string { return text.Number(r.subscription.Sites(), "site") }

// Attach attaches a subscriber to the probes that exist. processFound is as in engine.Selection.
func (r *Run) Attach(s engine.Subscriber, processFound func(pid int) error) error {
	if r.ends != nil {
		s = r.ends.Subscriber(s, r.Selector, r.Env)
	}
	r.subscription = r.engine.Add(s, engine.Selection{
		Selector: r.Selector, Together: r.Together, ProcessFound: processFound,
	})
	defer r.Slow("attaching to probes", r.sites)()
	r.exits.begin()
	if err := r.Selector.Open(r.finder.Open, r.Await); err != nil {
		return err
	}
	if err := r.checkDebugFiles(); err != nil {
		return err
	}
	for _, f := range r.Selector.Files() {
		if !r.engine.Everywhere(f) {
			r.Warn("%s: others can change it while it is traced, because a lease needs CAP_LEASE and a local file system, so stapsdt looks for its processes", f.Path)
		}
	}
	found, err := r.scan()
	if err != nil {
		return err
	}
	if err := r.noFunction(r.finder); err != nil && !r.engine.Incomplete() {
		return err
	}
	if err := r.engine.Settle(r.subscription); err != nil {
		return err
	}
	shows := r.subscription.Sites() > 0 || r.engine.Short() || r.cost.exhausted()
	waits := r.Awaits() || len(r.Pods)+len(r.Names) > 0 || r.processes == nil && r.engine.Scans()
	if !shows && !waits && !r.engine.Incomplete() {
		return r.nothing()
	}
	for _, err := range r.engine.LeftOut() {
		r.Problem(err)
	}
	if !shows && len(r.engine.LeftOut()) == 0 {
		r.warnWaits()
	} else if shows {
		r.warnMissing(waits)
		r.warnLacking(found)
	}
	return nil
}

// checkDebugFiles returns an error if a debug file that the user has named belongs to no program
// that the user has named. Some programs and libraries can come later.
func (r *Run) checkDebugFiles() error {
	later := r.Config.All || len(r.Pods) > 0 || r.Await || r.Command != nil
	if len(r.DebugFiles) == 0 || later {
		return nil
	}
	target.NoteDebug(r.debug, proc.Family(r.PIDs))
	for _, f := range r.Selector.Files() {
		f.NoteDebug()
	}
	return r.debug.Stray()
}

// scan attaches to the files that the processes have mapped.
func (r *Run) scan() (*probes.Found, error) {
	found, err := r.engine.Scan()
	if err == nil {
		err = found.Blind()
	}
	if err != nil {
		return nil, err
	}
	if warning := found.Warning("traced"); warning != "" {
		r.Warn("%s", warning)
	}
	if hidden := found.Hidden(r.Target.All); hidden != "" && r.Verbose {
		r.Warn("%s", hidden)
	}
	return found, nil
}

// Wait lets the consumer take the events of the probes until ctx is done, the time is over or the
// processes have exited, and attaches to probes that appear meanwhile. It then detaches: the maps
// have all events that were fired.
func (r *Run) Wait(ctx context.Context, c engine.Ticker) error {
	r.began = true
	r.stopped()
	if err := r.release(); err != nil {
		return err
	}
	if r.Command != nil && !r.released {
		r.Warn("the COMMAND waits until it is attached to")
	}
	ctx, cancel := r.WithDuration(ctx)
	defer cancel()
	if r.pods != nil {
		c = newPodTicker(c, r.pods, len(r.PIDs) > 0)
	}
	err := r.engine.Run(ctx, watched{c, r})
	if r.Command != nil {
		r.warnLeft()
		r.Command.Leave()
		if err == nil && !r.released {
			err = errors.New("the COMMAND was not run, because it was not attached to yet")
		}
	}
	if err == nil && r.Ending != nil {
		err = r.Ending()
	}
	if err == nil && r.ends != nil {
		err = r.ends.Stop()
	}
	r.Ended = clock.Now()
	r.Finish()
	if err != nil {
		return err
	}
	if err := r.cost.report(); err != nil {
		return err
	}
	defer r.Slow("detaching from "+r.sites(), nil)()
	if r.processes != nil {
		r.processes.Detach()
	}
	return r.engine.Detach()
}

// release lets the COMMAND run, if there is one, as soon as all its files are attached to.
func (r *Run) release() error {
	if r.Command == nil || r.released || r.engine.Short() || r.engine.Incomplete() {
		return nil
	}
	r.released = true
	return r.Command.Release()
}

// Report warns of the events that could not be evaluated, of functions that never came and of
// processes that ended too soon, and prints how the processes have ended. It returns an error if
// nothing was ever attached to.
func (r *Run) Report(stats layout.Stats) error {
	for spec, err := range r.missingFunctions() {
		r.Warn("no function was found for %v: %v", spec, err)
	}
	if n := stats.Unevaluated; n > 0 {
		r.Warn("%d events are not included, because an expression could not be evaluated: memory that was not readable, a text that was cut, or a division by 0", n)
	}
	if n := stats.Foreign; n > 0 {
		r.Warn("%d events are not included, because no goroutine of a known program fired them", n)
	}
	if err := r.reportEnds(); err != nil {
		return err
	}
	if n := r.subscription.Missed(); n > 0 {
		r.Warn("%d of the processes ended before their probes were attached to", n)
	}
	r.exits.report(len(r.PIDs) > 0 && r.processes.Exited() && r.Command == nil)
	return r.unattached()
}

// reportEnds warns of ends that are not included, because their starts were not seen.
func (r *Run) reportEnds() error {
	if r.ends == nil {
		return nil
	}
	totals, err := r.ends.Totals()
	if err != nil {
		return err
	}
	pairing.WarnEarly(r.Console, totals.Ends)
	pairing.WarnFull(r.Console, totals.Full)
	return nil
}

// Close releases all resources.
func (r *Run) Close() {
	if r.engine != nil {
		r.engine.Close()
	}
	if r.finder != nil {
		r.finder.Close()
	}
	if r.debug != nil {
		r.debug.Close()
	}
	if r.processes != nil {
		r.processes.Close()
	}
	if r.cost != nil {
		r.cost.close()
	}
	if r.ends != nil {
		r.ends.Close()
	}
	if r.Table != nil {
		_ = r.Table.Close()
	}
	if r.exits != nil {
		r.exits.close()
	}
	if r.pods != nil {
		r.pods.Close()
	}
	if r.Env != nil {
		r.Env.Stats.Close()
	}
}
