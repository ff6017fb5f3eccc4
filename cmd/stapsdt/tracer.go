//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"

	"github.com/spf13/cobra"
)

// tracing is what the commands that attach to probes have in common: which probes of which processes,
// the filter, and when to end.
type tracing struct {
	*session
	where    where
	filter   string
	duration time.Duration
	timed    func() bool // whether the command line has a duration, or nil
	// others are names that a spec stands for too, by the spec.
	others map[string]string
	single bool // one perf event for each site, as before Linux 6.6

	selector     *probes.Selector
	finder       *target.Finder
	engine       *engine.Engine
	subscription *engine.Subscription
	processes    *probes.Processes // nil unless they are named
	env          *program.Env
	// load returns what is done at the events of a probe, whose number is id. It is called once
	// for each.
	load func(p *program.Probe, id uint32) (*program.Section, error)
	// together says that nothing is attached before each spec has a probe.
	together bool
	// found is called for each process that has mapped a file with selected probes, each time
	// that this is noticed, and before the probes are attached to if they are not yet. It may be
	// nil.
	found func(pid int) error

	running bool             // whether it has begun
	probes  []*program.Probe // by their numbers
}

func (t *tracing) flags(c *cobra.Command) {
	t.where.flags(c)
	c.Flags().StringVarP(&t.filter, "where", "w", "", "only events for which the Go expression `EXPR` is true, such as 'status >= 500'")
	t.timed = func() bool { return c.Flags().Changed("duration") }
	c.Flags().DurationVarP(&t.duration, "duration", "d", 0, "end after this time, such as 10s")
	c.Flags().BoolVar(&t.single, "single", false, "attach to each site on its own, as on kernels before 6.6")
	_ = c.Flags().MarkHidden("single")
}

// Selector implements engine.Subscriber.
func (t *tracing) Selector() *probes.Selector { return t.selector }

// Together implements engine.Subscriber.
func (t *tracing) Together() bool { return t.together }

// AsksProcesses implements engine.Subscriber.
func (t *tracing) AsksProcesses() bool { return t.found != nil }

// ProcessFound implements engine.Subscriber.
func (t *tracing) ProcessFound(pid int) error { return t.found(pid) }

// Problem implements engine.Subscriber.
func (t *tracing) Problem(err error) { t.warn("%v", err) }

// Section implements engine.Subscriber.
func (t *tracing) Section(p *program.Probe) (*program.Section, error) {
	section, err := t.load(p, uint32(len(t.probes)))
	if err == nil {
		t.probes = append(t.probes, p)
	}
	return section, err
}

// open prepares what does not depend on the probes.
func (t *tracing) open(specs []string) (err error) {
	if err := t.check(specs); err != nil {
		return err
	}
	// A process that does not exist is a better error than missing rights.
	for _, pid := range t.where.pids {
		if !target.Alive(pid) {
			return fmt.Errorf("process %d: %w", pid, target.ErrNoProcess)
		}
	}
	machine, err := newMachine(t.single)
	if err == nil {
		t.env, err = machine.env()
	}
	if err != nil {
		return t.orNothing(err)
	}
	t.finder = target.NewTracer()
	o := engine.Options{
		Finder: t.finder, Kernel: engine.BPF{Kernel: machine.kernel}, Processes: engine.Everyone{},
		All: true, Scan: t.where.all, Watch: watchProcesses, Problem: t.Problem,
	}
	if len(t.where.pids) > 0 {
		if t.processes, err = probes.Follow(t.where.pids, t.env.Namespace); err != nil {
			return err
		}
		t.env.Processes, t.env.Roots = t.processes.Set, t.where.pids
		o.Processes, o.All, o.Scan = engine.Family{Processes: t.processes}, false, true
	}
	if t.engine, err = engine.New(o); err != nil {
		return err
	}
	t.subscription = t.engine.Add(t)
	return nil
}

func (t *tracing) check(specs []string) (err error) {
	if t.selector, err = t.where.selector(specs, t.others); err != nil {
		return err
	}
	if t.duration < 0 {
		return usagef("the duration %v is negative", t.duration)
	}
	if t.duration == 0 && t.timed != nil && t.timed() {
		return usagef("a duration of 0 would count nothing: leave out -d to go on until Ctrl-C")
	}
	if t.filter == "" {
		return nil
	}
	return checkSyntax(t.filter)
}

// begin attaches to the probes that exist.
func (t *tracing) begin() error {
	defer t.slow("attaching to probes")()
	if err := t.selector.Open(t.finder); err != nil {
		return err
	}
	for _, f := range t.selector.Files() {
		if !t.engine.Everywhere(f) {
			t.warn("%s: nothing keeps others from changing it while it is traced, which takes CAP_LEASE and a local file system, so its processes are looked for", f.Path)
		}
	}
	if err := t.engine.Attach(&probes.Found{}); err != nil {
		return err
	}
	if t.engine.Scans() || t.found != nil {
		t.engine.Watch()
	}
	if t.engine.Scans() {
		if err := t.scan(); err != nil {
			return err
		}
	}
	if t.subscription.Sites() > 0 {
		return nil
	}
	if t.processes != nil || !t.engine.Scans() {
		return t.nothing()
	}
	t.warn("no process has %s yet; waiting for one", t.selector.Missing())
	return nil
}

// scan attaches to what the processes have mapped.
func (t *tracing) scan() error {
	found, err := t.engine.Look()
	if err == nil {
		err = t.incomplete(found)
	}
	if err != nil {
		return err
	}
	return t.engine.Attach(found)
}

// nothing says that the processes have no probe that is selected.
func (t *tracing) nothing() error {
	return fmt.Errorf("%w: no file of the process has %s", probes.ErrNothing, t.selector.Missing())
}

// orNothing returns err, which may say that rights are missing, or the better error that the
// processes have no probe that is selected, if they may be looked at.
func (t *tracing) orNothing(err error) error {
	var refused *rights.Error
	if !errors.As(err, &refused) || t.where.all || t.selector.NamesFiles() {
		return err
	}
	finder := target.NewFinder()
	defer finder.Close()
	found, scanErr := t.where.scan(finder)
	if scanErr != nil || found.Refused != nil {
		return err
	}
	has := false
	for _, f := range found.Files {
		has = t.selector.Find(f) || has
	}
	if has && !(t.together && t.selector.Missing() != "") {
		return err
	}
	return t.nothing()
}

// watch takes what the probes deliver until ctx is done, the time is over or the processes have
// exited, and attaches to what appears meanwhile.
func (t *tracing) watch(ctx context.Context, c engine.Consumer) error {
	t.running = true
	if t.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.duration)
		defer cancel()
	}
	return t.engine.Run(ctx, c)
}

// detach ends the tracing. What was fired is then in the maps.
func (t *tracing) detach() error {
	defer t.slow(fmt.Sprintf("detaching from %d sites", t.subscription.Sites()))()
	if t.processes != nil {
		t.processes.Detach()
	}
	return t.engine.Detach()
}

// slow says what is being done, if that takes more than a second, until done is called.
func (s *session) slow(what string) (done func()) {
	timer := time.AfterFunc(time.Second, func() { s.warn("%s, which takes a while", what) })
	return func() { timer.Stop() }
}

// close releases everything.
func (t *tracing) close() {
	if t.engine != nil {
		t.engine.Close()
	}
	if t.processes != nil {
		t.processes.Close()
	}
	if t.env != nil {
		t.env.Stats.Close()
	}
}
