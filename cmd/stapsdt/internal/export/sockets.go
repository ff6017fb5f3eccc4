//go:build linux

package export

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/metric"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"
)

// socketExporter makes metrics of the programs of this user that listen, without the kernel.
type socketExporter struct {
	*console.Console
	complaints *rule.Complaints
	file       string
	hangup     atomic.Bool
	checked    time.Time
	reads      chan reading // of the rules file, while reloading
	reloading  bool

	mu    sync.Mutex // guards what follows, and the metrics
	state rulesState
	now   *watch // by the rules in force
	lost  uint64 // by watches that have ended
}

// reading is what reading the rules again has led to.
type reading struct {
	*watch
	err error
}

// newSocketExporter returns an exporter by the rules of a file, which it reads.
func newSocketExporter(to *console.Console, file string) (e *socketExporter, err error) {
	e = &socketExporter{Console: to, complaints: rule.NewComplaints(to), file: file, reads: make(chan reading, 1)}
	e.state.file, _ = os.Stat(file)
	e.state.at = time.Now()
	e.now, err = e.read(&watch{})
	return e, err
}

// read reads the rules, and connects to the programs. A rule that is the same as before continues to count.
func (e *socketExporter) read(before *watch) (*watch, error) {
	all, err := rules.Read(e.file)
	if err != nil {
		return nil, err
	}
	w := &watch{exporter: e, texts: all.Metrics}
	var specs []string
	for _, text := range all.Metrics {
		i := slices.IndexFunc(before.texts, func(old rules.Metric) bool { return reflect.DeepEqual(old, text) })
		var m *metric.Recorded
		if i >= 0 {
			m = before.metrics[i]
		} else if m, err = metric.NewRecorded(text, cgroup.Sidecar(), time.Now(), e.problem); err != nil {
			return nil, err
		}
		specs = append(specs, m.Specs()...)
		w.metrics = append(w.metrics, m)
	}
	for _, s := range all.Spans {
		e.problem(fmt.Errorf("the spans of %s are left out, because they come from the kernel only", s.Probe))
	}
	if w.feed, err = live.OpenAll(e.Console, specs); err != nil {
		return nil, err
	}
	w.feed.Came, w.feed.Gone = w.came, w.gone
	return w, nil
}

func (e *socketExporter) problem(err error) { e.complaints.Complain(err.Error()) }

// reload begins to read the rules again, and to watch by them, if they may have changed.
func (e *socketExporter) reload() {
	hangup := e.hangup.Load()
	if e.reloading || !hangup && time.Since(e.checked) < engine.Interval {
		return
	}
	e.checked = time.Now()
	if !hangup && !e.changed() {
		return
	}
	e.hangup.Store(false)
	e.state.file, _ = os.Stat(e.file)
	e.reloading = true
	before := e.now
	go func() {
		w, err := e.read(before)
		if err == nil {
			w.feed.Begin()
		}
		e.reads <- reading{w, err}
	}()
}

// reloaded returns the watch by rules that were read again, or nil. If they are wrong, those in force stay.
func (e *socketExporter) reloaded() *watch {
	select {
	case r := <-e.reads:
		e.reloading = false
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.state.failed = r.err != nil; r.err != nil {
			e.Warn("%v; the rules in force stay", r.err)
		}
		return r.watch
	default:
		return nil
	}
}

// changed reports whether the rules file was changed.
func (e *socketExporter) changed() bool {
	now, err := os.Stat(e.file)
	was := e.state.file
	if err != nil || was == nil {
		return (err != nil) == (was != nil)
	}
	return !probes.SameContent(now, was)
}

// run goes on until ctx is done.
func (e *socketExporter) run(ctx context.Context, hangup <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go eachHangup(ctx, hangup, func() { e.hangup.Store(true) })
	for {
		w := e.now
		err := w.feed.Run(ctx, w)
		if err != nil || w.next == nil {
			w.feed.Close()
			if w.next != nil {
				w.next.feed.Close()
			}
			return err
		}
		for _, f := range w.feed.Files() {
			w.gone(f) // the next one has other files of the same programs
		}
		e.mu.Lock()
		e.lost += w.feed.Missing()
		e.now, e.state.at = w.next, time.Now()
		e.mu.Unlock()
		w.feed.Close()
		e.Warn("read %s: %s", e.file, render.Number(len(e.now.metrics), "metric"))
	}
}

// Collect implements expose.Source.
func (e *socketExporter) Collect() ([]expose.Family, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []expose.Family
	var events, lost, series numbers
	for _, m := range e.now.metrics {
		f := m.Family()
		all = append(all, *f)
		events.add(float64(m.Events()), m.Name)
		series.add(float64(len(f.Series)), m.Name)
		lost.add(float64(m.Overflow()), m.Name, "full")
		lost.add(float64(m.Unevaluated()), m.Name, "unevaluated")
	}
	success := 1.0
	if e.state.failed {
		success = 0
	}
	names, one := []string{"metric"}, func(v float64) numbers { return numbers{{Values: []string{}, Value: v}} }
	return append(all,
		expose.Family{Name: "stapsdt_events_total", Help: "Events that a metric is made of.", Labels: names, Series: events},
		expose.Family{Name: "stapsdt_lost_events_total", Help: "Events that are not in a metric, because a table was full, or because an expression could not be evaluated.", Labels: []string{"metric", "reason"}, Series: lost},
		expose.Family{Name: "stapsdt_series", Help: "Series that a metric has.", Kind: expose.Gauge, Labels: names, Series: series},
		expose.Family{Name: "stapsdt_socket_lost_events_total", Help: "Events of selected probes that came faster than they could be read from the memory of their programs.", Series: one(float64(e.lost + e.now.feed.Missing()))},
		expose.Family{Name: "stapsdt_watched_processes", Help: "Processes that are watched by their sockets.", Kind: expose.Gauge, Series: one(float64(e.now.feed.Programs()))},
		expose.Family{Name: "stapsdt_rules_reload_success", Help: "Whether the rules file, as it was read last, is in force.", Kind: expose.Gauge, Series: one(success)},
		expose.Family{Name: "stapsdt_rules_reload_time_seconds", Help: "When the rules in force were read.", Unit: "seconds", Kind: expose.Gauge, Series: one(float64(e.state.at.UnixMilli()) / 1000)},
	), nil
}
