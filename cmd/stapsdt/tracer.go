//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/attach"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"

	"github.com/cilium/ebpf"
	"github.com/spf13/cobra"
)

// tracing is what the commands that attach to probes have in common: which probes of which processes,
// the filter, and when to end.
type tracing struct {
	*session
	rule     string // that the tracing is for, or "" for a command
	where    where
	filter   string
	duration time.Duration
	timed    func() bool // whether the command line has a duration, or nil
	// others are names that a spec stands for too, by the spec.
	others map[string]string
	single bool // one perf event for each site, as before Linux 6.6

	specs     []wanted
	finder    *target.Finder
	processes *processes
	watcher   *target.Watcher // nil if it is not permitted
	env       *program.Env
	// load makes the program of a probe, whose number is id. It is called once for each.
	load func(p *program.Probe, id uint32) (*ebpf.Program, error)
	// together says that nothing is attached before each spec has a probe.
	together bool
	// found is called for each process that has mapped a file with traced probes, each time
	// that this is noticed, and before the probes are traced if they are not yet. It may be
	// nil.
	found func(pid int) error

	running  bool                     // whether it has begun, so that it goes on if a new probe is wrong
	programs map[string]*ebpf.Program // by Probe.Key
	probes   []*program.Probe         // by their numbers
	has      map[*target.File]bool    // whether a file has probes that are meant
	attached map[*target.File]*attachment
	sites    int
	scanned  time.Time     // when the processes were last looked at
	problems atomic.Uint64 // which were warned of
}

func (t *tracing) flags(c *cobra.Command) {
	t.where.flags(c)
	c.Flags().StringVarP(&t.filter, "where", "w", "", "only events for which the Go expression `EXPR` is true, such as 'status >= 500'")
	t.timed = func() bool { return c.Flags().Changed("duration") }
	c.Flags().DurationVarP(&t.duration, "duration", "d", 0, "end after this time, such as 10s")
	c.Flags().BoolVar(&t.single, "single", false, "attach to each site on its own, as on kernels before 6.6")
	_ = c.Flags().MarkHidden("single")
}

// open prepares what does not depend on the probes, and attaches to those that exist.
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
		err = t.prepare(machine)
	}
	if err != nil {
		return t.orNothing(err)
	}
	if len(t.where.pids) > 0 {
		if t.processes, err = follow(t.where.pids, t.env.Namespace); err != nil {
			return err
		}
		t.env.Processes, t.env.Roots = t.processes.pids, t.where.pids
	}
	return nil
}

// machine is what traces on one machine can share.
type machine struct {
	finder    *target.Finder
	kernel    program.Kernel
	namespace *program.Namespace
}

func newMachine(single bool) (m *machine, err error) {
	m = &machine{finder: target.NewTracer()}
	if m.kernel, err = program.Detect(); err != nil {
		return nil, err
	}
	m.kernel.Multi = m.kernel.Multi && !single
	m.namespace, err = program.CurrentNamespace()
	return m, err
}

// prepare makes what does not depend on the processes.
func (t *tracing) prepare(m *machine) (err error) {
	t.finder = m.finder
	t.programs, t.has, t.attached = map[string]*ebpf.Program{}, map[*target.File]bool{}, map[*target.File]*attachment{}
	t.env = &program.Env{Kernel: m.kernel, Namespace: m.namespace}
	if t.env.Stats, err = program.NewStats(); err != nil {
		return mapError(err)
	}
	return nil
}

func mapError(err error) error {
	if errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	// Maps have a part for each processor, and only sysfs tells how many there are.
	var missing *fs.PathError
	if errors.As(err, &missing) && errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("%v; mount sysfs at /sys", missing)
	}
	return rights.New("loading BPF maps", err, rights.BPF)
}

func (t *tracing) check(specs []string) error {
	if len(specs) == 0 {
		return usagef("which probes? Give [FILE:]PROVIDER:PROBE, such as 'myapp:*'")
	}
	if err := t.where.check(); err != nil {
		return err
	}
	for _, text := range specs {
		if remote.IsAddress(text) {
			return usagef("an address is the first argument of trace, and has no place elsewhere")
		}
		spec, err := target.ParseSpec(text)
		if err != nil {
			return usagef("%w", err)
		}
		if spec.File == "" && !t.where.all && len(t.where.pids) == 0 {
			return usagef("which processes? Give -p PID, or -a for all, or a file as in FILE:%s", text)
		}
		w := wanted{Spec: spec}
		if other := t.others[text]; other != "" {
			if w.other, err = target.ParseSpec(other); err != nil {
				return usagef("%w", err)
			}
		}
		t.specs = append(t.specs, w)
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
	if err := t.openFiles(); err != nil {
		return err
	}
	if err := t.attachAll(&scan{}); err != nil {
		return err
	}
	if t.scans() || t.found != nil {
		t.watcher, _ = target.NewWatcher()
	}
	if err := t.scan(true); err != nil {
		return err
	}
	if t.sites > 0 {
		return nil
	}
	if t.processes != nil || !t.scans() {
		return t.nothing()
	}
	t.warn("no process has %s yet; waiting for one", t.wanted())
	return nil
}

// scans reports whether to look at processes: it need not if the command line names files that
// are attached to in all processes.
func (t *tracing) scans() bool {
	return t.where.all || t.processes != nil ||
		slices.ContainsFunc(t.specs, func(w wanted) bool { return w.file != nil && !t.everywhere(w.file) })
}

// scan attaches to what the processes have mapped since the last time.
func (t *tracing) scan(first bool) error {
	if !t.scans() {
		return nil
	}
	w := t.where
	if t.processes == nil {
		w.all = true
	}
	if t.processes != nil && !first {
		w = where{pids: t.processes.list()}
	}
	if t.watcher == nil {
		t.finder.Doubt()
	}
	start := time.Now()
	found, err := w.scan(t.finder)
	if errors.Is(err, target.ErrNoProcess) && !first {
		return nil
	}
	if err != nil {
		return err
	}
	if first {
		if err := t.incomplete(found); err != nil {
			return err
		}
	}
	t.scanned = start
	return t.attachFound(found)
}

// attachFound attaches to files of processes, and closes those without a probe that is meant.
func (t *tracing) attachFound(found *scan) error {
	if err := t.attachAll(found); err != nil {
		return err
	}
	for _, f := range found.files {
		if !t.has[f] {
			delete(t.has, f)
			t.finder.Dismiss(f)
		}
	}
	return nil
}

// attachAll attaches to files of processes, and to those that the command line names.
func (t *tracing) attachAll(found *scan) error {
	var files []*target.File
	for _, spec := range t.specs {
		if spec.file != nil {
			files = append(files, spec.file)
		}
	}
	files = append(files, found.files...)
	for _, f := range files {
		if _, known := t.has[f]; !known {
			t.has[f] = t.find(f)
		}
	}
	files = slices.DeleteFunc(files, func(f *target.File) bool { return !t.has[f] })
	for _, f := range files {
		if t.found == nil {
			break
		}
		for _, u := range found.uses[f] {
			if err := t.found(u.pid); err != nil {
				return err
			}
		}
	}
	if t.together && t.wanted() != "" {
		return nil
	}
	for _, f := range files {
		if err := t.attach(f, found.uses[f]); err != nil {
			return err
		}
	}
	return nil
}

// look attaches to what processes have mapped just now, as far as the kernel tells.
func (t *tracing) look() error {
	if err := t.renew(); err != nil || t.watcher == nil {
		return err
	}
	// Who has mapped a file matters only to who asks for the processes.
	pids, all := t.watcher.Mapped(func(pid int, m *target.Mapping) bool { return t.found == nil && t.finder.Knows(pid, m) })
	if all {
		t.finder.Doubt()
		return t.scan(false)
	}
	pids = append(pids, t.finder.Waiting()...)
	if t.processes != nil {
		pids = slices.DeleteFunc(pids, func(pid int) bool { return !t.processes.has(pid) })
	}
	_, err := scanEach(t.finder, pids, t.attachFound)
	return err
}

const (
	// interval is how long a process can have a new file before it is found, if the kernel
	// does not tell.
	interval = 250 * time.Millisecond
	// With many processes, looking at them takes one part in so many of a processor.
	scanning = 20
)

// watch calls tick again and again until ctx is done, the time is over or the processes have
// exited, and attaches to what appears meanwhile. tick waits as long as it is told, and
// reports whether to go on.
func (t *tracing) watch(ctx context.Context, tick func(wait time.Duration) (bool, error)) error {
	t.running = true
	end := time.Now().Add(t.duration)
	if t.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	next := time.Now().Add(interval)
	for ctx.Err() == nil {
		wait := 20 * time.Millisecond
		if t.duration > 0 {
			wait = min(wait, time.Until(end))
		}
		more, err := tick(max(wait, 0))
		if err != nil || !more {
			return err
		}
		if err := t.look(); err != nil {
			return err
		}
		if time.Now().Before(next) {
			continue
		}
		if t.processes != nil && !t.processes.purge() {
			return nil
		}
		start := time.Now()
		if err := t.scan(false); err != nil {
			return err
		}
		t.forget()
		next = time.Now().Add(max(interval, scanning*time.Since(start)))
	}
	return nil
}

// detach ends the tracing. What was fired is then in the maps.
func (t *tracing) detach() error {
	var links attach.Links
	for _, a := range t.attached {
		links = append(links, a.detach()...)
	}
	if t.processes != nil && t.processes.link != nil {
		links = append(links, t.processes.link)
		t.processes.link = nil
	}
	defer t.slow(fmt.Sprintf("detaching from %d sites", t.sites))()
	return links.Close()
}

// slow says what is being done, if that takes more than a second, until done is called.
func (s *session) slow(what string) (done func()) {
	timer := time.AfterFunc(time.Second, func() { s.warn("%s, which takes a while", what) })
	return func() { timer.Stop() }
}

// close releases everything.
func (t *tracing) close() {
	_ = t.detach()
	for _, prog := range t.programs {
		prog.Close()
	}
	if t.processes != nil {
		t.processes.close()
	}
	if t.watcher != nil {
		t.watcher.Close()
	}
	if t.env != nil && t.env.Stats != nil {
		t.env.Stats.Close()
	}
	if t.finder != nil {
		t.finder.Close()
	}
}
