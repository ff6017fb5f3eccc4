//go:build linux

package export

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/metric"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
)

// socketExporter makes metrics of the programs of this user that listen, without the kernel.
type socketExporter struct {
	*console.Console
	complaints *rule.Complaints
	reads      chan reading // results of reading the rules file during a reload
	reloading  bool

	mu    sync.Mutex // guards the following fields, and the metrics
	state rulesState
	now   *watch // the watch for the rules in force
	lost  uint64 // events lost by watches that have ended
}

// reading is the result of reading the rules again.
type reading struct {
	*watch
	err error
}

// newSocketExporter returns an exporter for the rules in a file, which it reads.
func newSocketExporter(to *console.Console, file string) (e *socketExporter, err error) {
	e = &socketExporter{
		Console: to, complaints: rule.NewComplaints(to), reads: make(chan reading, 1),
		state: rulesState{path: file, at: time.Now()},
	}
	e.state.due()
	e.now, err = e.read(&watch{})
	return e, err
}

// read reads the rules, and connects to the programs. An unchanged rule continues to count.
func (e *socketExporter) read(before *watch) (*watch, error) {
	all, err := rules.Read(e.state.path)
	if err != nil {
		return nil, err
	}
	w := &watch{exporter: e}
	all.Metrics = slices.DeleteFunc(all.Metrics, func(text rules.Metric) bool {
		if text.Functions() {
			e.problem(fmt.Errorf("%s is left out, because only the kernel shows functions", text.Name))
		}
		return text.Functions()
	})
	w.metrics, err = renewed(
		all.Metrics,
		before.metrics,
		(*metric.Recorded).Follows,
		func(text rules.Metric) (*metric.Recorded, error) {
			return metric.NewRecorded(text, cgroup.Sidecar(), time.Now(), e.problem), nil
		},
	)
	if err != nil {
		return nil, err
	}
	var specs []spec.Choice
	for _, m := range w.metrics {
		specs = append(specs, m.Specs...)
	}
	for _, s := range all.Spans {
		e.problem(fmt.Errorf("the spans of %s are left out, because only the kernel delivers them", s.Probe))
	}
	if w.feed, err = live.OpenAll(e.Console, specs); err != nil {
		return nil, err
	}
	w.feed.Came, w.feed.Gone = w.came, w.gone
	return w, nil
}

func (e *socketExporter) problem(err error) { e.complaints.Complain(err.Error()) }

// reload starts reading the rules again, and watching by them, if they may have changed.
func (e *socketExporter) reload() {
	if e.reloading || !e.state.due() {
		return
	}
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

// reloaded returns the watch for rules that were read again, or nil. If they are wrong, the rules
// in force stay.
func (e *socketExporter) reloaded() *watch {
	select {
	case r := <-e.reads:
		e.reloading = false
		e.state.reloaded(e.Console, r.err)
		return r.watch
	default:
		return nil
	}
}

func (e *socketExporter) run(ctx context.Context, hangup <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go eachHangup(ctx, hangup, func() { e.state.hangup.Store(true) })
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
		e.mu.Lock()
		for _, f := range w.feed.Files() { // the next watch has other files of the same programs
			drop := (*metric.Recorded).Drop
			if !w.next.has(f.Writer()) {
				drop = (*metric.Recorded).Gone
			}
			for _, m := range w.metrics {
				drop(m, f)
			}
		}
		e.lost += w.feed.Missing()
		e.now, e.state.at = w.next, time.Now()
		e.mu.Unlock()
		w.feed.Close()
		e.Warn("read %s: %s", e.state.path, render.Number(len(e.now.metrics), "metric"))
	}
}

func (e *socketExporter) Collect() ([]expose.Family, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	own := &ownMetrics{}
	var all []expose.Family
	for _, m := range e.now.metrics {
		r := m.Read()
		all = append(all, *r.Family)
		own.metric(r)
		own.lost.add(float64(r.Full), m.Name, "full")
		own.lost.add(float64(r.Unevaluated), m.Name, "unevaluated")
	}
	all = append(
		all,
		expose.Family{Name: "stapsdt_socket_lost_events_total", Help: "Events of selected probes that came faster than they could be read from the memory of their programs.", Series: one(float64(e.lost + e.now.feed.Missing()))},
		expose.Family{
			Name: "stapsdt_watched_processes", Help: "Processes that are watched by their sockets.", Kind: expose.Gauge, Series: one(float64(e.now.feed.Programs())),
		},
	)
	return append(all, own.families(&e.state)...), nil
}
