//go:build linux

package export

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/metric"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// watch makes the metrics of some rules from the events of listening programs. When the rules
// change, a second watch begins before the first ends, and each event belongs to one of them, by
// its time. It is a live.Receiver.
type watch struct {
	exporter *socketExporter
	feed     *live.Feed
	metrics  []*metric.Recorded
	// next is the watch that takes over at its time since, by CLOCK_MONOTONIC, or nil. earlier
	// holds the programs whose events before since belong to the previous watch.
	next    *watch
	since   time.Duration
	earlier map[replay.Writer]bool
}

// owns reports whether an event belongs to this watch.
func (w *watch) owns(e *recording.Event, f *replay.File) bool {
	if w.next != nil && e.Monotonic >= w.next.since && w.next.has(f.Writer()) {
		return false
	}
	return e.Monotonic >= w.since || !w.earlier[f.Writer()]
}

func (w *watch) has(p replay.Writer) bool {
	for _, f := range w.feed.Files() {
		if f.Writer() == p {
			return true
		}
	}
	return false
}

// handOver leaves the events from now on to another watch.
func (w *watch) handOver(next *watch, now time.Duration) {
	next.since, next.earlier = now, map[replay.Writer]bool{}
	for _, f := range w.feed.Files() {
		next.earlier[f.Writer()] = true
	}
	w.next = next
}

// came prepares the rules for the probes of a program.
func (w *watch) came(all []*recording.Probe) {
	w.exporter.mu.Lock()
	defer w.exporter.mu.Unlock()
	for _, m := range w.metrics {
		for _, p := range all {
			m.Meet(p)
		}
	}
}

// gone removes a program that has ended from the metrics.
func (w *watch) gone(f *replay.File) {
	w.exporter.mu.Lock()
	defer w.exporter.mu.Unlock()
	for _, m := range w.metrics {
		m.Gone(f)
	}
}

func (w *watch) Event(event *recording.Event, f *replay.File) error {
	if !w.owns(event, f) {
		return nil
	}
	w.exporter.mu.Lock()
	defer w.exporter.mu.Unlock()
	for _, m := range w.metrics {
		m.Add(event, f)
	}
	return nil
}

// reloadInterval is the interval between checks whether the next watch has begun.
const reloadInterval = 10 * time.Millisecond

// Tick implements live.Receiver. A run ends once other rules are in force and have a watch.
func (w *watch) Tick() (next time.Duration, more bool, err error) {
	e := w.exporter
	e.reload()
	if next := e.reloaded(); next != nil {
		w.handOver(next, clock.Now())
		return 0, false, nil
	}
	if e.reloading {
		return reloadInterval, true, nil
	}
	return engine.Interval, true, nil
}
