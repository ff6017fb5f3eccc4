package events

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/paired"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// settleTime exceeds the time after which an event is in the recording of its pod.
	settleTime = 200 * time.Millisecond
	// laggardPatience is the time for which the events of other pods wait for those of a pod whose
	// frames do not come, or whose clock is late.
	laggardPatience = time.Second
	// deliveryPause is the time between two deliveries, if frames come more often.
	deliveryPause = 10 * time.Millisecond
)

// replicas are pods that send their events, as a Source.
type replicas struct {
	*replay.Reader
	pods    replay.Replicas
	to      *console.Console
	config  *query.Config
	show    *Show
	updates <-chan replay.Update
	all     map[*replay.Replica]*replica
	known   map[*recording.Probe]bool
	left    map[*replay.Replica]bool // those that were removed
	stopped bool
	gaps    gaps
	ends    *paired.Ends
}

// replica is a pod whose recording is mirrored.
type replica struct {
	mirror *mirror.Mirror
	file   *replay.File
	// settled is the time of day until which all events of the pod have come, and ahead what it is
	// ahead of CLOCK_MONOTONIC, both by the clocks of its machine.
	settled, ahead time.Duration
	ended          bool
	drained        bool // it has ended, and its events were delivered
}

// openReplicas lets the pods begin.
func openReplicas(to *console.Console, config *query.Config, o *Options) (f *replicas, err error) {
	f = &replicas{
		pods: o.From.Replicas, to: to, config: config, show: o.Show,
		all: map[*replay.Replica]*replica{}, known: map[*recording.Probe]bool{},
		left: map[*replay.Replica]bool{}, gaps: newGaps(),
	}
	asked, where := *config, ""
	if o.Needs.Pairing != nil { // the pods send starts, and leave the condition to this
		asked.Where, where = "", config.Where
		for _, start := range paired.Starts(spec.All(config.Specs)) {
			asked.Specs = append(slices.Clip(asked.Specs), spec.Choice{Spec: start})
		}
	}
	if f.Reader, err = replay.New(config.Specs, where, o.Needs.Unfit); err != nil {
		return nil, err
	}
	f.Pairing = o.Needs.Pairing
	f.ends = paired.New(f.Reader)
	if err := errors.Join(config.CheckDuration(), query.CheckSpecs(config.Specs)); err != nil {
		return nil, err
	}
	first, updates, err := f.pods.Record(to, &asked)
	if err != nil {
		f.pods.Close()
		return nil, err
	}
	f.updates = updates
	for _, u := range first {
		f.take(u)
	}
	if err = f.CheckFits(); err == nil && len(f.Probes()) > 0 {
		err = o.Needs.Check(f.Probes())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if f.HasSelected() {
		to.WarnMissing(f.config, "no pod has", replay.Names(f.Known()))
	}
	f.Begin(to)
	return f, nil
}

// take takes an update of a replica. A replica whose frames are damaged is left out.
func (f *replicas) take(u replay.Update) {
	r := f.all[u.Replica]
	switch {
	case f.left[u.Replica]:
		return
	case u.Frame == nil:
		if r != nil && u.Unwatched && !r.ended {
			f.gaps.begin(u.Pod, r.settled)
		}
		if r != nil {
			r.ended = true
		}
		return
	}
	if r == nil {
		r = &replica{mirror: mirror.New(u.Bytes)}
		f.all[u.Replica] = r
		_, r.settled = u.Frame.Looked()
		f.gaps.end(u.Pod, r.settled)
	}
	if r.ended {
		return
	}
	err := r.mirror.Apply(u.Frame)
	if err == nil && r.file == nil {
		r.file, err = f.AddMirror(r.mirror, u.Name, u.Pod)
	}
	if err != nil {
		f.to.Warn("%s is left out: %v", u.Name, err)
		r.ended = true
		return
	}
	r.ended = u.Frame.Last()
	if monotonic, realtime := u.Frame.Looked(); !u.Frame.Full() {
		r.settled, r.ahead = realtime-settleTime, realtime-monotonic
	}
}

func (f *replicas) Run(ctx context.Context, c Consumer) error {
	ctx, cancel := f.config.WithDuration(ctx)
	defer cancel()
	d := &Delivery{Consumer: c, Show: f.show, Ends: f.ends}
	f.know(c)
	if t, ok := c.(Taker); ok && !f.Pairs() {
		f.Taker = t.Taker
	}
	err := f.follow(ctx, d)
	if errors.Is(err, replay.ErrEnough) {
		return nil
	}
	return err
}

// follow delivers events until all replicas have ended, or the consumer needs no more.
func (f *replicas) follow(ctx context.Context, d *Delivery) error {
	for done, open := ctx.Done(), true; ; {
		if err := f.deliver(d, !open); err != nil {
			return err
		}
		next, more, err := d.Tick()
		if err != nil || !more || !open {
			return err
		}
		select {
		case u, ok := <-f.updates:
			if open = ok; ok {
				f.take(u)
				open = f.takeMore()
			}
		case <-done:
			done, f.stopped = nil, true
			f.pods.Stop()
		case <-time.After(next):
		}
	}
}

// takeMore takes the updates that come soon after another one, about one of each replica. It
// reports whether more can come.
func (f *replicas) takeMore() bool {
	end := time.After(deliveryPause)
	for range f.all {
		select {
		case u, ok := <-f.updates:
			if !ok {
				return false
			}
			f.take(u)
		case <-end:
			return true
		}
	}
	return true
}

// horizon returns the time of day until which the events of all replicas have come.
func (f *replicas) horizon() time.Duration {
	first, latest := time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for _, r := range f.all {
		if r.file != nil && !r.ended {
			first, latest = min(first, r.settled), max(latest, r.settled)
		}
	}
	return max(first, latest-laggardPatience)
}

// deliver delivers the events that have come, as far as the order of their times is final, or all.
// It then removes the replicas that have ended before the others.
func (f *replicas) deliver(d *Delivery, whole bool) error {
	horizon, rounds, unordered := f.horizon(), 1, f.IsUnordered()
	for _, r := range f.all {
		r.drained = r.ended && (r.file == nil || unordered || horizon > r.settled+settleTime)
		switch {
		case r.file == nil:
		case whole || r.drained || unordered:
			r.file.Limit(math.MaxInt64)
			rounds = 2 // the first one may only return events that were read before
		case r.ended:
			r.file.Limit(horizon - r.ahead)
		default:
			r.file.Limit(min(horizon, r.settled) - r.ahead)
		}
	}
	visit := func(e *recording.Event, file *replay.File) error { return d.Event(e, file) }
	for range rounds {
		_, failed, err := f.MoreUntil(math.MaxInt64, true)
		f.know(d.Consumer)
		f.Begin(f.to) // warns of probes that are left out, once
		for err == nil {
			if failed, err = f.Each(context.Background(), visit); failed == nil {
				break
			}
		}
		if failed == nil && err != nil {
			return err
		}
		if failed != nil {
			f.leaveOut(d, failed, err)
		}
	}
	for key, r := range f.all {
		if whole && r.file != nil {
			r.file.Passed(max(r.file.Last(), r.settled+settleTime-r.ahead))
		}
		if r.drained && !f.stopped {
			f.remove(d, key, r)
		}
	}
	return nil
}

// leaveOut removes a replica whose recording holds data that no writer writes.
func (f *replicas) leaveOut(d *Delivery, file *replay.File, err error) {
	for key, r := range f.all {
		if r.file == file {
			f.to.Warn("%s is left out: %v", file.Path, err)
			f.remove(d, key, r)
		}
	}
}

func (f *replicas) remove(d *Delivery, key *replay.Replica, r *replica) {
	delete(f.all, key)
	f.left[key] = true
	if r.file == nil {
		return
	}
	for _, p := range r.file.Probes() {
		delete(f.known, p)
	}
	if n := r.file.Lost(); n > 0 && key.Pod != nil {
		f.gaps.lost[*render.NewPodName(key.Pod)] += n
	}
	f.Remove(r.file)
	d.Gone(r.file)
}

// know passes on the probes that are new in the recordings.
func (f *replicas) know(c Consumer) {
	for _, p := range f.Probes() {
		if !f.known[p] {
			f.known[p] = true
			c.Know(p)
		}
	}
}

func (f *replicas) Until() time.Time { return time.Now().Add(-settleTime) }

func (f *replicas) Announce() {
	names := map[string]bool{}
	for _, p := range f.Probes() {
		names[p.Provider+":"+p.Name] = true
	}
	if f.to.Announces(f.config.Verbose) {
		probes, pods := text.Number(len(names), "probe"), text.Number(len(f.all), "pod")
		f.to.Warn("%s of %s; %s", probes, pods, console.End(f.config.Duration))
	}
}

// Report names the pods whose events were lost.
func (f *replicas) Report(consequence string, reported uint64) error {
	if gone := f.Gone(); gone > 0 && reported == 0 {
		WarnLost(f.to, gone, "pods have ended before they were read", consequence)
	}
	if reported == 0 {
		f.Reader.Report(f.to, consequence)
	} else {
		WarnLost(f.to, f.Lost()-reported, TooFast, consequence)
	}
	f.Losses().WarnUnwatched(f.to)
	f.ends.Report(f.to)
	evaluate.Unevaluated(f.to, f.Faults)
	return nil
}

func (f *replicas) Close() {
	f.pods.Close()
	f.Reader.Close()
}
