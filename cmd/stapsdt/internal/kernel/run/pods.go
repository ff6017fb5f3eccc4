//go:build linux

package run

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/follow"
)

// followPods selects the processes of pods if the command names some, and gives expressions the
// names of pods where there are any.
func (r *Run) followPods() (err error) {
	if len(r.Pods) == 0 && !pods.Here() {
		return nil
	}
	if r.pods, err = follow.NewPods(r.Pods, r.Problem); err != nil {
		r.pods = nil
		return err
	}
	r.Env.Pods, r.Env.Cgroups = r.pods.Names, r.pods.Set
	return nil
}

// ShowsPods reports whether the output names the pods, because events may come from several.
func (r *Run) ShowsPods() bool {
	return r.pods != nil && (r.All || len(r.Pods) > 0) && (r.pods.Any() || len(r.Pods) > 0)
}

// Container returns the container of a control group.
func (r *Run) Container(id uint64) cgroup.Container { return r.pods.Container(id) }

// podTicker is an engine.Ticker that looks for new pods while another waits for events.
type podTicker struct {
	engine.Ticker
	update   func()
	interval time.Duration
	due      time.Time
}

// newPodTicker returns a podTicker, which looks for new pods often unless the command names
// processes (named): these run already, so their containers and most of their later containers are
// known.
func newPodTicker(c engine.Ticker, follower *follow.Pods, named bool) *podTicker {
	interval := follow.PodInterval
	if named {
		interval = time.Second
	}
	return &podTicker{Ticker: c, update: follower.Update, interval: interval}
}

func (c *podTicker) Tick() (next time.Duration, more bool, err error) {
	if now := time.Now(); !now.Before(c.due) {
		c.due = now.Add(c.interval)
		c.update()
	}
	next, more, err = c.Ticker.Tick()
	return min(next, c.interval), more, err
}
