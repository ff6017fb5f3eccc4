//go:build linux

// Package run is the run of a command: it attaches a subscriber to the probes that the command line
// selects, until Ctrl-C, the end of the processes, or that of a duration.
package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
)

// Config says which events of which processes a command is about, and when it ends.
type Config struct {
	probes.Target
	// Specs are the probes. Others are names that a spec stands for too, by the spec.
	Specs  []string
	Others map[string]string
	// Together says that nothing is attached before each spec has a probe.
	Together bool
	// Where is the condition that events meet, or "".
	Where string
	// Duration is how long the run takes, or 0 for until Ctrl-C.
	Duration time.Duration
	// Single attaches to each site on its own, as before Linux 6.6.
	Single bool
}

// check checks what does not depend on the processes.
func (c *Config) check() (*probes.Selector, error) {
	selector, err := c.Selector(c.Specs, c.Others)
	switch {
	case err != nil:
		return nil, err
	case c.Duration < 0:
		return nil, usage.Errorf("the duration %v is negative", c.Duration)
	case c.Where == "":
		return selector, nil
	}
	return selector, bpf.CheckSyntax(c.Where)
}

// Run is a run.
type Run struct {
	Config
	*console.Console
	Selector *probes.Selector
	Env      *bpf.Env

	began        bool
	finder       *target.Finder
	engine       *engine.Engine
	subscription *engine.Subscription
	processes    *probes.Processes // nil unless they are named
}

// New prepares what does not depend on the probes. It is an error if the command line is wrong, if
// a process does not exist, and if rights are missing.
func New(to *console.Console, c Config) (*Run, error) {
	r := &Run{Config: c, Console: to}
	if err := r.open(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Run) open() (err error) {
	if r.Selector, err = r.check(); err != nil {
		return err
	}
	// A process that does not exist is a better error than missing rights.
	for _, pid := range r.PIDs {
		if !target.Alive(pid) {
			return fmt.Errorf("process %d: %w", pid, target.ErrNoProcess)
		}
	}
	machine, err := bpf.NewMachine(r.Single)
	if err == nil {
		r.Env, err = machine.Env()
	}
	if err != nil {
		return r.orNothing(err)
	}
	r.finder = target.NewTracer()
	if r.All {
		r.finder.Limit()
	}
	o := engine.Options{
		Finder: r.finder, Kernel: engine.BPF{Kernel: machine.Kernel}, Processes: engine.Everyone{},
		All: true, Scan: r.All, Watch: engine.WatchProcesses, Problem: r.Problem,
	}
	if len(r.PIDs) > 0 {
		if r.processes, err = probes.Follow(r.PIDs, r.Env.Namespace); err != nil {
			return err
		}
		r.Env.Processes, r.Env.Roots = r.processes.Set, r.PIDs
		o.Processes, o.All, o.Scan = engine.Family{Processes: r.processes}, false, true
	}
	r.engine, err = engine.New(o)
	return err
}

// Problem warns of what keeps events from being seen.
func (r *Run) Problem(err error) { r.Warn("%v", err) }

// Began reports whether the subscriber was attached to what there is, and is now to what comes.
func (r *Run) Began() bool { return r.began }

// Attach attaches a subscriber to the probes that exist.
func (r *Run) Attach(s engine.Subscriber) error {
	defer r.Slow("attaching to probes")()
	r.subscription = r.engine.Add(s)
	if err := r.Selector.Open(r.finder); err != nil {
		return err
	}
	for _, f := range r.Selector.Files() {
		if !r.engine.Everywhere(f) {
			r.Warn("%s: nothing keeps others from changing it while it is traced, which takes CAP_LEASE and a local file system, so its processes are looked for", f.Path)
		}
	}
	if err := r.engine.Attach(&probes.Found{}); err != nil {
		return err
	}
	if r.engine.Scans() || s.AsksProcesses() {
		r.engine.Watch()
	}
	if r.engine.Scans() {
		if err := r.scan(); err != nil {
			return err
		}
	}
	if err := r.engine.Settle(r.subscription); err != nil {
		return err
	}
	if r.subscription.Sites() > 0 || r.engine.Short() {
		return nil
	}
	if r.processes != nil || !r.engine.Scans() {
		return r.nothing()
	}
	r.Warn("no process has %s yet; waiting for one", r.Selector.Missing())
	return nil
}

// scan attaches to what the processes have mapped.
func (r *Run) scan() error {
	found, err := r.engine.Look()
	if err == nil {
		err = found.Blind()
	}
	if err != nil {
		return err
	}
	if warning := found.Warning("traced"); warning != "" {
		r.Warn("%s", warning)
	}
	return r.engine.Attach(found)
}

// nothing says that the processes have no probe that is selected.
func (r *Run) nothing() error {
	return fmt.Errorf("%w: no file of the process has %s", probes.ErrNothing, r.Selector.Missing())
}

// orNothing returns err, which may say that rights are missing, or the better error that the
// processes have no probe that is selected, if they may be looked at.
func (r *Run) orNothing(err error) error {
	var refused *rights.Error
	if !errors.As(err, &refused) || r.All || r.Selector.NamesFiles() {
		return err
	}
	finder := target.NewFinder()
	defer finder.Close()
	found, scanErr := r.Look(finder)
	if scanErr != nil || found.Refused != nil {
		return err
	}
	has := false
	for _, f := range found.Files {
		has = r.Selector.Find(f) || has
	}
	if has && !(r.Together && r.Selector.Missing() != "") {
		return err
	}
	return r.nothing()
}

// Wait lets the consumer take what the probes deliver until ctx is done, the time is over or the
// processes have exited, and attaches to what appears meanwhile. It then ends the attachment: what
// was fired is in the maps.
func (r *Run) Wait(ctx context.Context, c engine.Consumer) error {
	r.began = true
	if r.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Duration)
		defer cancel()
	}
	err := r.engine.Run(ctx, c)
	r.Finish()
	if err != nil {
		return err
	}
	defer r.Slow(fmt.Sprintf("detaching from %d sites", r.subscription.Sites()))()
	if r.processes != nil {
		r.processes.Detach()
	}
	return r.engine.Detach()
}

// Unevaluated says how many events could not be evaluated.
func (r *Run) Unevaluated(stats record.Stats) {
	if n := stats.Unevaluated; n > 0 {
		r.Warn("%d events are not included, because an expression could not be evaluated: memory that was not readable, a text that was cut, or a division by 0", n)
	}
	if n := stats.Foreign; n > 0 {
		r.Warn("%d events are not included, because they were not fired by a goroutine of a program that is known", n)
	}
}

// Close releases everything.
func (r *Run) Close() {
	if r.engine != nil {
		r.engine.Close()
	}
	if r.processes != nil {
		r.processes.Close()
	}
	if r.Env != nil {
		r.Env.Stats.Close()
	}
}
