//go:build linux

package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/follow"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/ring"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// ringSize has room for the events that two threads fire in a tenth of a second.
const ringSize = 32 << 20

// checkInterval is the interval between checks for processes that have ended.
const checkInterval = 2 * time.Second

// lostInterval is the interval between looks for lost events while there are events.
const lostInterval = 50 * time.Millisecond

// kernel is a Source. It is an engine.Subscriber and an engine.Ticker too.
type kernel struct {
	ring       *ring.Ring
	run        *run.Run
	goroutines *follow.Goroutines // nil unless Options.Goroutines is set
	stacks     *eventStacks       // nil unless Options.Stacks is set
	consumer   events.Consumer    // set by Run
	enough     bool               // the consumer needs no more events
	sources    []*tracedProbe     // indexed by the IDs of the probes
	processes  map[uint32]*replay.File
	checked    time.Time
	clock      layout.Clock
	unreadable uint64
	lost       uint64        // events that were lost until the last look
	counted    time.Time     // when that was
	missed     time.Duration // the time when the last of them were found to be missing
	// These fields describe the event that is delivered.
	event    events.Event
	recorded recording.Event
	call     events.Call
	// calls, show and paired are from the options. functions are the probes if all of them are
	// functions.
	calls     *events.Calls
	show      *events.Show
	paired    bool
	functions []*bpf.Probe
	pods      bool
	found     []int // the processes that were found before Run
	pasts     pasts
	unsure    bool            // a warning of values that may be old was given
	refused   map[string]bool // the reasons already reported for arguments that are not shown
}

// openKernel attaches to the probes.
func openKernel(
	to *console.Console, config *query.Config, o *events.Options, machine *bpf.Machine,
) (k *kernel, err error) {
	k = &kernel{processes: map[uint32]*replay.File{}, checked: time.Now(), calls: o.Calls}
	k.show, k.paired = cmp.Or(o.Show, &events.Show{TextSize: evaluate.TextSize}), o.Paired
	k.event.Event, k.event.Call = &k.recorded, &k.call
	defer func() {
		if err != nil {
			k.Close()
			k = nil
		}
	}()
	if k.run, err = run.New(to, *config, run.Options{
		Machine: machine, Exprs: k.show.Exprs, Stacks: o.Stacks,
		Whole: o.Paired && slices.ContainsFunc(config.Specs, spec.Choice.IsLine),
	}); err != nil {
		return k, err
	}
	k.pods = k.run.ShowsPods()
	if k.ring, err = ring.NewRing(k.run.Env, "events", ringSize); err != nil {
		return k, err
	}
	var found func(pid int) error
	if o.Goroutines {
		found = k.processFound
		k.goroutines = &follow.Goroutines{}
		if err := k.goroutines.Prepare(k.run.Env); err != nil {
			return k, err
		}
	}
	if o.Stacks {
		found = k.processFound
		k.stacks = newEventStacks(k.run, o.Show)
	}
	if err := k.run.Attach(k, found); err != nil {
		return k, err
	}
	if o.Calls != nil {
		if err := checkCalls(o.Calls, k.functions); err != nil {
			return k, err
		}
	}
	// The kernel shows the existing probes.
	if o.Needs.All == nil || config.All && len(k.sources) == 0 {
		return k, nil
	}
	return k, o.Needs.All(k.Probes())
}

func (k *kernel) Probes() (all []*recording.Probe) {
	for _, s := range k.sources {
		all = append(all, s.known)
	}
	return all
}

func (k *kernel) Announce() { k.run.Announce() }

func (k *kernel) Clock(e *recording.Event) time.Duration { return e.Monotonic }

func (k *kernel) Until() time.Time { return time.Now() }

func (k *kernel) Close() {
	k.ring.Close()
	if k.goroutines != nil {
		k.goroutines.Close()
	}
	if k.stacks != nil {
		k.stacks.Close()
	}
	if k.run != nil {
		k.run.Close()
	}
}

// processFound finds the goroutines of a process, if it has any, and its functions.
func (k *kernel) processFound(pid int) error {
	if k.stacks != nil {
		k.stacks.Look(pid)
	}
	if k.goroutines == nil {
		return nil
	}
	if k.consumer == nil {
		k.found = append(k.found, pid)
	}
	_ = k.goroutines.Find(k.run.Env, pid)
	return nil
}

func (k *kernel) Section(p *bpf.Probe) (*bpf.Section, error) {
	show := k.show
	tr, err := bpf.NewTrace(p, k.run.Where, show.Exprs, show.TextSize, show.Verbose)
	if err != nil {
		return nil, err
	}
	s := newTracedProbe(p, tr.Items)
	if k.calls == nil && len(show.Exprs) == 0 {
		k.argsMissing(p)
	}
	if k.goroutines != nil && len(tr.Items) < bpf.MaxItems {
		s.goroutine = len(tr.Items)
		tr.AddGoroutine()
	}
	if k.calls != nil {
		if s.calls, err = addCall(k.calls, tr, p); err != nil {
			return nil, err
		}
		k.functions = append(k.functions, p)
	}
	if k.pods && len(tr.Items) < bpf.MaxItems {
		s.cgroup = len(tr.Items)
		tr.AddCgroup()
	}
	if k.stacks != nil {
		s.stack = len(tr.Items)
		if err := tr.AddStack(k.run.Table); err != nil {
			return nil, err
		}
	}
	s.items = tr.Items
	section, err := k.ring.Add(tr)
	if err != nil {
		return nil, err
	}
	k.sources = append(k.sources, s)
	if k.consumer != nil {
		k.consumer.Know(s.known)
	}
	return section, nil
}

// argsMissing warns, once for each reason, that the arguments of probes are unknown, and once that
// they may be old.
func (k *kernel) argsMissing(p *bpf.Probe) {
	if p.Function != nil && len(p.Function.Unsure) > 0 && !k.unsure {
		k.unsure = true
		name := slices.Min(slices.Collect(maps.Keys(p.Function.Unsure)))
		k.Problem(fmt.Errorf("a value with ? may be old, because the compiler can keep a new one elsewhere: %s (%w); list names all", name, p.Function.Unsure[name]))
	}
	if p.ArgsErr == nil || k.refused[p.ArgsErr.Error()] {
		return
	}
	if k.refused == nil {
		k.refused = map[string]bool{}
	}
	k.refused[p.ArgsErr.Error()] = true
	k.Problem(fmt.Errorf("%v is shown without arguments: %w", p, p.ArgsErr))
}

func (k *kernel) Run(ctx context.Context, c events.Consumer) error {
	k.consumer = c
	for _, s := range k.sources {
		c.Know(s.known)
	}
	if err := k.deliverPasts(c); err != nil {
		return err
	}
	err := k.run.Wait(ctx, k)
	// the events that were sent before the detachment
	for more := err == nil && !k.enough; more && err == nil; {
		more, err = k.take(true)
	}
	for _, f := range k.processes {
		f.Passed(max(f.Last(), k.run.Ended))
	}
	if errors.Is(err, replay.ErrEnough) {
		return nil
	}
	return err
}

// take delivers the events whose order is final, or all with drain.
func (k *kernel) take(drain bool) (any bool, err error) {
	events, err := k.ring.Read(drain)
	if err == nil {
		err = k.deliver(events)
	}
	// Events are lost while there are some. Asking the kernel wakes the monitor of the runtime.
	interval := lostInterval
	if len(events) == 0 && !k.ring.Waiting() {
		interval = query.Rest
	}
	if !drain && time.Since(k.counted) < interval {
		return len(events) > 0, err
	}
	k.counted = time.Now()
	if lost := k.Lost(); lost > k.lost { // the ends of operations may be among them
		k.lost, k.missed = lost, clock.Now()
		for _, f := range k.processes {
			f.Missed(k.missed)
		}
	}
	return len(events) > 0, err
}

func (k *kernel) Problem(err error) { k.run.Problem(err) }

func (k *kernel) FDs() []int { return k.ring.FDs() }

func (k *kernel) Tick() (next time.Duration, more bool, err error) {
	_, err = k.take(false)
	if errors.Is(err, replay.ErrEnough) {
		k.enough = true
		_, _, err = k.consumer.Tick()
		return 0, false, err
	}
	if err != nil {
		return 0, false, err
	}
	k.purge()
	next, more, err = k.consumer.Tick()
	return k.ring.Next(min(next, query.Rest)), more, err
}

// purge records that the events until now were delivered, and drops the processes that have ended.
func (k *kernel) purge() {
	now := clock.Now()
	for _, f := range k.processes {
		f.Passed(now)
	}
	if time.Since(k.checked) < checkInterval {
		return
	}
	k.checked = time.Now()
	if k.goroutines != nil {
		k.goroutines.Purge()
	}
	for pid, f := range k.processes {
		if pid != 0 && !proc.Alive(int(pid)) {
			delete(k.processes, pid)
			k.consumer.Gone(f)
		}
	}
}

// deliver delivers events. It drops the events that come while the run detaches from one probe
// after another.
func (k *kernel) deliver(events []*layout.Event) error {
	for _, e := range events {
		if k.run.Ended != 0 && e.Time > k.run.Ended {
			continue
		}
		k.decode(e)
		if err := k.consumer.Event(&k.event); err != nil {
			return err
		}
	}
	return nil
}

// decode sets the event to one that the kernel has delivered.
func (k *kernel) decode(e *layout.Event) {
	f, s := k.process(e.PID), k.sources[e.ID]
	f.Passed(e.Time)
	k.event.File, k.event.Shown, k.event.Thread = f, &s.shown, e.Comm()
	head := recording.Event{
		Number: e.ID, PID: e.PID, TID: e.TID,
		Monotonic: e.Time, Realtime: k.clock.At(e.Time).UnixNano(),
		Executable: f.Process.Executable, Pod: k.pod(e, s, f),
	}
	if k.calls != nil {
		decodeCall(&k.call, e, s)
	}
	if s.goroutine >= 0 {
		head.Goroutine = e.Value(s.items, s.goroutine).Bits // 0 if it is missing
	}
	if k.stacks != nil {
		k.event.Stack = k.stacks.of(e, s)
	}
	k.recorded.Reset(s.probe, &head)
	k.unreadable += s.setArguments(&k.recorded, e)
}

// process returns the file that stands for a process. One file stands for all processes if they are
// not needed.
func (k *kernel) process(pid uint32) *replay.File {
	if !k.paired {
		pid = 0
	}
	f := k.processes[pid]
	if f == nil {
		p := &replay.Process{}
		if pid != 0 {
			p = live.NewProcess(int(pid))
		}
		f = replay.NewFile(p)
		f.Missed(k.missed)
		k.processes[pid] = f
	}
	return f
}

// pod returns the pod of the process that fired the event, or nil.
func (k *kernel) pod(e *layout.Event, s *tracedProbe, f *replay.File) *recording.Pod {
	if s.cgroup < 0 {
		if k.paired {
			live.FindPod(f.Process, e.Time)
		}
		return f.Process.Pod
	}
	c := k.run.Container(e.Value(s.items, s.cgroup).Bits)
	if !c.InPod() {
		return nil
	}
	if p := f.Process.Pod; p == nil || p.Namespace != c.Namespace || p.Name != c.Pod ||
		p.Container != c.Name {
		f.Process.Pod = c.AsPod()
	}
	return f.Process.Pod
}

func (k *kernel) Lost() uint64 {
	lost, _ := layout.ReadLost(k.run.Env.Stats) // 0 after an error
	return lost
}

func (k *kernel) Losses() replay.Losses { return replay.Losses{Lost: k.Lost()} }

func (k *kernel) stats() layout.Stats {
	stats, err := layout.ReadStats(k.run.Env.Stats)
	if err != nil {
		return layout.Stats{}
	}
	return stats
}

func (k *kernel) Report(consequence string, reported uint64) error {
	stats := k.stats()
	events.WarnLost(k.run.Console, stats.Lost-reported, events.TooFast, consequence)
	if k.paired && k.unreadable > 0 {
		k.run.Warn("%d arguments could not be read, and are shown as <unreadable> or 0", k.unreadable)
	}
	if k.stacks != nil {
		k.stacks.Report(k.run.Console)
	}
	return k.run.Report(stats)
}
