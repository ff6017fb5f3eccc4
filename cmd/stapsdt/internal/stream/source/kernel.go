//go:build linux

package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/ring"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
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

// kernel is a Source: the kernel's events in the form of recorded ones. It is an engine.Subscriber and an engine.Ticker too.
type kernel struct {
	ring       *ring.Ring
	run        *run.Run
	goroutines *probes.Goroutines // nil unless Options.Goroutines is set
	consumer   events.Consumer    // set by Run
	enough     bool               // the consumer needs no more events
	sources    []*tracedProbe     // indexed by the IDs of the probes
	processes  map[uint32]*replay.File
	checked    time.Time
	clock      event.Clock
	unreadable uint64
	lost       uint64        // events that were lost until the last look
	counted    time.Time     // when that was
	missed     time.Duration // the time when the last of them were found to be missing
	// These fields describe the event that is delivered.
	event    events.Event
	recorded recording.Event
	body     events.Body
	call     events.Call
	// calls and show are from the options. functions are the probes if all of them are functions.
	calls     *events.Calls
	show      *events.Show
	functions []*bpf.Probe
	pods      bool
	refused   map[string]bool // the reasons already reported for arguments that are not shown
}

// tracedProbe is a probe whose events the kernel delivers.
type tracedProbe struct {
	probe     *recording.Probe
	shown     *events.Shown
	goroutine int // the index of the item with the event's goroutine, or -1
	cgroup    int // the index of the item with the control group, or -1
	calls     callItems
}

// openKernel attaches to the probes.
func openKernel(
	to *console.Console, config *query.Config, o *events.Options,
) (k *kernel, err error) {
	k = &kernel{processes: map[uint32]*replay.File{}, checked: time.Now(), calls: o.Calls, show: o.Show}
	k.event.Event, k.event.Call = &k.recorded, &k.call
	defer func() {
		if err != nil {
			k.Close()
			k = nil
		}
	}()
	if k.run, err = run.New(to, *config); err != nil {
		return k, err
	}
	k.pods = k.run.ShowsPods()
	if k.ring, err = ring.NewRing(k.run.Env, "events", ringSize); err != nil {
		return k, err
	}
	var found func(pid int) error
	if o.Goroutines {
		found = k.processFound
		k.goroutines = &probes.Goroutines{}
		if err := k.goroutines.Prepare(k.run.Env); err != nil {
			return k, err
		}
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
	if o.Needs.All == nil || k.show != nil || config.All && len(k.sources) == 0 {
		return k, nil
	}
	return k, o.Needs.All(k.Probes())
}

func (k *kernel) Probes() (all []*recording.Probe) {
	for _, s := range k.sources {
		all = append(all, s.probe)
	}
	return all
}

func (k *kernel) Announce() { k.run.Announce() }

func (k *kernel) Clock(e *recording.Event) time.Duration { return e.Monotonic }

func (k *kernel) Close() {
	k.ring.Close()
	if k.goroutines != nil {
		k.goroutines.Close()
	}
	if k.run != nil {
		k.run.Close()
	}
}

// processFound finds the goroutines of a process, if it has any.
func (k *kernel) processFound(pid int) error {
	_ = k.goroutines.Find(k.run.Env, pid)
	return nil
}

func (k *kernel) Section(p *bpf.Probe) (*bpf.Section, error) {
	show := k.show
	if show == nil {
		show = &events.Show{TextSize: replay.TextSize}
	}
	tr, err := bpf.NewTrace(p, k.run.Where, show.Exprs, show.TextSize, show.Verbose)
	if err != nil {
		return nil, err
	}
	s := &tracedProbe{probe: &recording.Probe{Provider: p.Provider, Name: p.Name}, goroutine: -1, cgroup: -1}
	own := len(tr.Items)
	for _, item := range p.ArgItems() {
		s.probe.Args = append(s.probe.Args, events.ArgOf(&item))
	}
	if k.show != nil && len(show.Exprs) == 0 {
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
	s.shown = events.NewShown(s.probe, tr.Items, own)
	section, err := k.ring.Add(tr)
	if err != nil {
		return nil, err
	}
	k.sources = append(k.sources, s)
	if k.consumer != nil {
		k.consumer.Know(s.probe)
	}
	return section, nil
}

// argsMissing warns, once for each reason, that the arguments of probes are unknown.
func (k *kernel) argsMissing(p *bpf.Probe) {
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
		c.Know(s.probe)
	}
	err := k.run.Wait(ctx, k)
	for more := err == nil && !k.enough; more && err == nil; { // the events that were sent before the detachment
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
	events, err := k.ring.Read(0, drain)
	if err == nil {
		err = k.deliver(events)
	}
	// Events are lost while there are some. Asking the kernel wakes the monitor of the runtime.
	if len(events) == 0 && !k.ring.Waiting() && time.Since(k.counted) < query.Rest {
		return false, err
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

func (k *kernel) FDs() []int { return []int{k.ring.FD()} }

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
	if next, more, err = k.consumer.Tick(); k.ring.Waiting() {
		next = min(next, ring.Slack)
	}
	return min(next, query.Rest), more, err
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

// deliver delivers events. It drops the events that come while the run detaches from one probe after another.
func (k *kernel) deliver(events []*event.Event) error {
	for _, e := range events {
		if k.run.Ended != 0 && e.Time > k.run.Ended {
			continue
		}
		if err := k.decode(e); err != nil {
			return err
		}
		if err := k.consumer.Event(&k.event); err != nil {
			return err
		}
	}
	return nil
}

// decode converts an event to the form of a recorded one.
func (k *kernel) decode(e *event.Event) error {
	f, s := k.process(e.PID), k.sources[e.ID]
	f.Passed(e.Time)
	k.event.FromKernel(f, e, s.shown)
	k.recorded = recording.Event{
		Probe: s.probe, Number: e.ID, PID: e.PID, TID: e.TID,
		Monotonic: e.Time, Realtime: k.clock.At(e.Time).UnixNano(),
		Executable: f.Process.Executable, Pod: k.pod(e, s, f),
	}
	if k.calls != nil {
		decodeCall(&k.call, e, s)
	}
	if s.goroutine >= 0 {
		k.recorded.Goroutine = e.Value(s.shown.All, s.goroutine).Bits // 0 if it is missing
	}
	if k.show != nil { // the consumer asks for values, and for no recorded argument
		return nil
	}
	for i, a := range s.probe.Args {
		v := e.Value(s.shown.All, i)
		k.add(i, &v, &s.shown.All[i], a.Kind)
	}
	return k.body.Decode(&k.recorded, s.probe)
}

// process returns the file that stands for a process. One file stands for all processes if only the values of events are needed.
func (k *kernel) process(pid uint32) *replay.File {
	if k.show != nil {
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
func (k *kernel) pod(e *event.Event, s *tracedProbe, f *replay.File) *recording.Pod {
	if s.cgroup < 0 {
		if k.show == nil {
			live.FindPod(f.Process, e.Time)
		}
		return f.Process.Pod
	}
	c := k.run.Container(e.Value(s.shown.All, s.cgroup).Bits)
	if !c.InPod() {
		return nil
	}
	if p := f.Process.Pod; p == nil || p.Namespace != c.Namespace || p.Name != c.Pod || p.Container != c.Name {
		f.Process.Pod = c.AsPod()
	}
	return f.Process.Pod
}

func (k *kernel) Lost() uint64 { return k.stats().Lost }

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
	if k.unreadable > 0 {
		k.run.Warn("%d arguments could not be read, and are shown as <unreadable> or 0", k.unreadable)
	}
	k.run.Report(stats)
	return nil
}
