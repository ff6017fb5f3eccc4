//go:build linux

// Package run runs a command: it attaches a subscriber to the probes that the command line
// selects, until Ctrl-C, the end of the processes, or the end of a duration.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/function"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/clock"
)

// Check returns an error if the command line is invalid. It does not look at the processes.
func Check(c *query.Config) error {
	_, err := check(c)
	return err
}

// check returns the selector, or an error if the command line is invalid. It looks at no process.
func check(c *query.Config) (*probes.Selector, error) {
	selector, err := probes.Select(&c.Target, c.Specs, c.Others)
	if err == nil {
		err = c.CheckDuration()
	}
	switch {
	case err != nil:
		return nil, err
	case c.Budget > 0 && len(c.PIDs) == 0:
		return nil, console.Usagef("--budget is a share of the processor time of processes: name them with -p")
	case c.Where == "":
		return selector, nil
	}
	return selector, query.CheckSyntax(c.Where)
}

// Run is a run of a command.
type Run struct {
	query.Config
	*console.Console
	Selector *probes.Selector
	Env      *bpf.Env
	// Ending is called when the run ends, before it detaches. It may be nil.
	Ending func() error
	// Ended is the time when the run ended, by CLOCK_MONOTONIC, or 0. Detaching takes some time
	// after that.
	Ended time.Duration

	began        bool
	finder       *target.Finder
	engine       *engine.Engine
	subscription *engine.Subscription
	debug        *debugfile.Finder
	processes    *probes.Processes // nil unless they are named
	cost         *cost
	pods         *pods.Follower // nil unless the machine has pods
	reasons      []string       // why functions are missing, as far as that was said
}

// New prepares everything that does not depend on the probes. It returns an error if the command
// line is invalid, a process does not exist, or rights are missing.
func New(to *console.Console, c query.Config) (*Run, error) {
	r := &Run{Config: c, Console: to}
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
	machine, err := bpf.NewMachine(r.Single)
	if err == nil {
		r.Env, err = machine.Env()
	}
	if err != nil {
		return r.orNothing(err)
	}
	r.Env.Debug = r.debug
	r.finder = target.NewTracer()
	r.finder.Debug = r.debug
	r.finder.SelectFunctions(r.Selector.FunctionSpecs())
	if r.All || len(r.Pods) > 0 {
		r.finder.Limit()
	}
	if r.cost, err = newCost(r, machine.Kernel); err != nil {
		return err
	}
	if err := r.followPods(); err != nil {
		return err
	}
	o := engine.Options{
		Files: r.finder, Skips: r.finder.Skips(), Broken: r.finder.Broken(),
		Kernel:    metered{engine.BPF{Kernel: machine.Kernel}, r.cost},
		Processes: engine.Everyone{},
		Scan:      r.All || len(r.Pods) > 0, Watch: engine.WatchProcesses, Problem: r.Problem,
	}
	if r.pods != nil {
		o.Processes = engine.Pods{Follower: r.pods}
	}
	if len(r.PIDs)+len(r.Names) > 0 {
		for _, pid := range r.PIDs {
			if err := r.Env.Identifies(pid); err != nil {
				return err
			}
		}
		if r.processes, err = probes.Follow(r.PIDs, r.Env.Namespace, r.Problem); err != nil {
			return err
		}
		r.Env.Processes, r.Env.Roots = r.processes.Set, r.PIDs
		family := engine.Family{Processes: r.processes}
		o.Processes, o.Scan, o.Named = family, true, r.PIDs
		switch {
		case r.Command != nil:
			o.Processes = engine.Launched{Family: family, Command: r.Command}
		case len(r.Names) > 0:
			called := probes.Called{Processes: r.processes, Names: r.Names}
			o.Processes = engine.Called{Called: called}
		}
	}
	r.engine, err = engine.New(o)
	return err
}

// Problem warns of an error that hides events.
func (r *Run) Problem(err error) { r.Warn("%v", err) }

// Began reports whether Wait was called: the subscriber is then attached to existing probes, and is
// being attached to new ones.
func (r *Run) Began() bool { return r.began }

// Attach attaches a subscriber to the probes that exist. found is engine.Selection's ProcessFound.
func (r *Run) Attach(s engine.Subscriber, found func(pid int) error) error {
	defer r.Slow("attaching to probes")()
	r.subscription = r.engine.Add(s, engine.Selection{
		Selector: r.Selector, Together: r.Together, ProcessFound: found,
	})
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
	if err := r.scan(); err != nil {
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
	if shows || len(r.engine.LeftOut()) > 0 {
		return nil
	}
	r.warnWaits()
	return nil
}

// warnWaits warns that nothing is traced yet.
func (r *Run) warnWaits() {
	of, missing := "process", cmp.Or(r.Selector.Missing(), "the selected probes")
	switch {
	case len(r.Names) > 0:
		of = "process called " + strings.Join(r.Names, " or ")
	case len(r.Pods) > 0:
		of = fmt.Sprintf("process of %s", r.pods)
	case !r.engine.Scans():
		of = "file"
	}
	hint := r.Selector.Nearest()
	for _, err := range r.missingFunctions() {
		hint = fmt.Sprintf(": %v", err)
		break
	}
	r.Warn("no %s has %s yet; waiting for one%s", of, missing, hint)
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
func (r *Run) scan() error {
	found, err := r.engine.Scan()
	if err == nil {
		err = found.Blind()
	}
	if err != nil {
		return err
	}
	if warning := found.Warning("traced"); warning != "" {
		r.Warn("%s", warning)
	}
	if hidden := found.Hidden(); hidden != "" && r.Verbose {
		r.Warn("%s", hidden)
	}
	return nil
}

// nothing returns the error for processes without a selected probe.
func (r *Run) nothing() error {
	if r.engine != nil && len(r.engine.LeftOut()) > 0 {
		return fmt.Errorf("%w: %w", query.ErrNothing, r.engine.LeftOut()[0])
	}
	missing := cmp.Or(r.Selector.Missing(), "a selected probe that can be traced")
	nearest := r.Selector.Nearest(r.PIDs...)
	return fmt.Errorf("%w: no file of the process has %s%s", query.ErrNothing, missing, nearest)
}

// missingFunctions yields the specs of functions that have none yet, with the reasons. It yields a
// reason once.
func (r *Run) missingFunctions() iter.Seq2[*probes.Spec, error] {
	return func(yield func(*probes.Spec, error) bool) {
		for _, spec := range r.Selector.Specs {
			err := r.finder.FunctionProblem(spec.Spec)
			if err == nil || spec.First != nil || slices.Contains(r.reasons, err.Error()) {
				continue
			}
			r.reasons = append(r.reasons, err.Error())
			if !yield(spec, err) {
				return
			}
		}
	}
}

// noFunction returns an error if a function spec selects no function. It only warns of a function
// that is inlined everywhere, if other specs have probes.
func (r *Run) noFunction(finder *target.Finder) error {
	found := func(s *probes.Spec) bool { return s.First != nil }
	others := slices.ContainsFunc(r.Selector.Specs, found)
	for _, spec := range r.Selector.Specs {
		if found(spec) || !spec.Functions {
			continue
		}
		err := finder.FunctionProblem(spec.Spec)
		switch {
		case others && !r.Together && errors.Is(err, function.ErrInlined):
			r.Warn("%v: %v", spec, err)
			continue
		case r.Await || spec.File == "" && (r.Awaits() || len(r.Names) > 0):
			continue
		case err == nil:
			return r.nothing()
		}
		return fmt.Errorf("%w: %v: %w", query.ErrNothing, spec, err)
	}
	return nil
}

// orNothing returns the error of nothing if the processes can be read and have no selected probe,
// because it is better than err, which may report missing rights. Otherwise it returns err.
func (r *Run) orNothing(err error) error {
	var refused *rights.Error
	if !errors.As(err, &refused) || r.All || len(r.Pods) > 0 || r.Awaits() ||
		r.Selector.NamesFiles() {
		return err
	}
	finder := target.NewFinder()
	defer finder.Close()
	finder.Debug = r.debug
	finder.SelectFunctions(r.Selector.FunctionSpecs())
	found, scanErr := probes.LookAt(&r.Target, finder)
	if scanErr != nil || found.Refused != nil || found.PutOff != nil {
		return err
	}
	has := false
	for _, f := range found.Files {
		has = r.Selector.Find(f) || has
	}
	if has && !(r.Together && r.Selector.Missing() != "") {
		return err
	}
	if err := r.noFunction(finder); err != nil {
		return err
	}
	return r.nothing()
}

// Wait lets the consumer take the events of the probes until ctx is done, the time is over or the
// processes have exited, and attaches to probes that appear meanwhile. It then detaches: the maps
// have all events that were fired.
func (r *Run) Wait(ctx context.Context, c engine.Ticker) error {
	r.began = true
	r.stopped()
	if r.Command != nil {
		if err := r.Command.Release(); err != nil {
			return err
		}
	}
	ctx, cancel := r.WithDuration(ctx)
	defer cancel()
	if r.pods != nil {
		c = newPodTicker(c, r.pods, len(r.PIDs) > 0)
	}
	err := r.engine.Run(ctx, watched{c, r.cost})
	if r.Command != nil {
		r.Command.Leave()
	}
	if err == nil && r.Ending != nil {
		err = r.Ending()
	}
	r.Ended = clock.Now()
	r.Finish()
	if err != nil {
		return err
	}
	if err := r.cost.report(); err != nil {
		return err
	}
	defer r.Slow(fmt.Sprintf("detaching from %d sites", r.subscription.Sites()))()
	if r.processes != nil {
		r.processes.Detach()
	}
	return r.engine.Detach()
}

// Report warns of the events that could not be evaluated and of functions that never came, and
// prints that the processes have exited.
func (r *Run) Report(stats layout.Stats) {
	for spec, err := range r.missingFunctions() {
		r.Warn("no function was found for %v: %v", spec, err)
	}
	if n := stats.Unevaluated; n > 0 {
		r.Warn("%d events are not included, because an expression could not be evaluated: memory that was not readable, a text that was cut, or a division by 0", n)
	}
	if n := stats.Foreign; n > 0 {
		r.Warn("%d events are not included, because no goroutine of a known program fired them", n)
	}
	if len(r.PIDs) > 0 && r.processes.Exited() && r.Command == nil {
		r.WarnExited(r.Console)
	}
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
	if r.pods != nil {
		r.pods.Close()
	}
	if r.Env != nil {
		r.Env.Stats.Close()
	}
}
