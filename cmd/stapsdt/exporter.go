//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

// exporter makes metrics and spans of probes by rules, which can change at any time. One
// goroutine attaches to the probes, and others ask for the metrics.
type exporter struct {
	*session
	config string
	sink   func(expose.Span) // never waits

	machine *machine
	watcher *target.Watcher // nil if it is not permitted
	cgroups *cgroup.Groups
	made    *program.Groups // since the exporter began, or nil if the kernel does not tell

	mu      sync.RWMutex // guards the rules, and what is attached for them
	metrics []*metricRule
	spans   []*spanRule
	state   reloading
	scanned time.Duration // how long looking at the processes took

	missed atomic.Uint64 // the processes that had ended before their files could be looked at
}

// reloading is what became of the rules file.
type reloading struct {
	file   os.FileInfo // when it was last read, or nil
	failed bool        // what it says is not in force
	at     time.Time   // when the rules in force were read
}

// rule is what metrics and spans have in common.
type rule interface {
	trace() *tracing
	// cgroups are the control groups that the rule means, or nil for all.
	cgroups() *groupSet
	// sweep forgets what belongs to processes that have ended.
	sweep() error
	close()
}

func (e *exporter) rules() (all []rule) {
	for _, m := range e.metrics {
		all = append(all, m)
	}
	for _, s := range e.spans {
		all = append(all, s)
	}
	return all
}

// open reads the rules, and attaches to the probes that exist.
func (e *exporter) open() (err error) {
	if e.machine, err = newMachine(false); err != nil {
		return err
	}
	if e.machine.namespace != nil {
		e.warn("this PID namespace is not the machine's: processes outside of it are not found, so run the exporter in that of the machine (hostPID: true, or --pid=host)")
	}
	if e.made, err = program.FollowGroups(); err != nil {
		e.made = nil
	}
	e.cgroups = cgroup.New(e.made.Path)
	if err := e.load(); err != nil {
		return err
	}
	e.watcher, _ = target.NewWatcher()
	return e.scan(true)
}

// load reads the rules file. What is wrong with it leaves the rules in force as they are. A
// rule that stays the same goes on counting.
func (e *exporter) load() error {
	e.state.file, _ = os.Stat(e.config)
	file, err := rules.Read(e.config)
	if err != nil {
		return err
	}
	metrics, spans, fresh, err := e.make(file)
	if err != nil {
		for _, r := range fresh {
			r.close()
		}
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.rules()
	e.metrics, e.spans, e.state.at = metrics, spans, time.Now()
	e.machine.finder.Reconsider()
	kept := map[rule]bool{}
	for _, r := range e.rules() {
		kept[r] = true
	}
	for _, r := range old {
		if !kept[r] {
			r.close()
		}
	}
	return nil
}

// make returns the rules of a file: those that are in force already, and fresh ones.
func (e *exporter) make(file *rules.File) (metrics []*metricRule, spans []*spanRule, fresh []rule, err error) {
	for _, text := range file.Metrics {
		m := find(e.metrics, func(m *metricRule) bool { return reflect.DeepEqual(m.Metric, text) })
		if m == nil {
			m = &metricRule{Metric: text}
			fresh = append(fresh, m)
			if err := m.prepare(e); err != nil {
				return nil, nil, fresh, err
			}
		}
		metrics = append(metrics, m)
	}
	for _, text := range file.Spans {
		s := find(e.spans, func(s *spanRule) bool { return s.Span == text })
		if s == nil {
			s = &spanRule{Span: text}
			fresh = append(fresh, s)
			if err := s.prepare(e); err != nil {
				return nil, nil, fresh, err
			}
		}
		spans = append(spans, s)
	}
	return metrics, spans, fresh, nil
}

func find[T any](all []*T, is func(*T) bool) *T {
	for _, one := range all {
		if is(one) {
			return one
		}
	}
	return nil
}

// reload reads the rules file again.
func (e *exporter) reload() error {
	err := e.load()
	e.mu.Lock()
	e.state.failed = err != nil
	e.mu.Unlock()
	if err != nil {
		e.warn("%v; the rules in force stay", err)
		return nil
	}
	e.warn("read %s: %s, %s", e.config, amount(len(e.metrics), "metric"), amount(len(e.spans), "span rule"))
	return e.scan(false)
}

// amount returns "1 metric" or "2 metrics".
func amount(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// changed reports whether the rules file is another one than was read last.
func (e *exporter) changed() bool {
	now, err := os.Stat(e.config)
	was := e.state.file
	if err != nil || was == nil {
		return (err != nil) == (was != nil) // it has appeared, or is gone
	}
	return !sameContent(now, was)
}

// scan attaches to what the processes have mapped.
func (e *exporter) scan(first bool) error {
	start := time.Now()
	if e.watcher == nil {
		e.machine.finder.Doubt()
	}
	w := where{all: true}
	found, err := w.scan(e.machine.finder)
	if err != nil {
		return err
	}
	if first {
		if err := e.incomplete(found); err != nil {
			return err
		}
	}
	err = e.attach(found)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.rules() {
		r.trace().scanned = start
	}
	e.scanned += time.Since(start)
	return err
}

// attach attaches to the probes of files for all rules.
func (e *exporter) attach(found *scan) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.rules() {
		if err := r.trace().attachAll(found); err != nil {
			return err
		}
	}
	for _, f := range found.files {
		if !slices.ContainsFunc(e.rules(), func(r rule) bool { return r.trace().has[f] }) {
			e.dismiss(f)
		}
	}
	return nil
}

// dismiss closes a file that no rule is about.
func (e *exporter) dismiss(f *target.File) {
	for _, r := range e.rules() {
		delete(r.trace().has, f)
	}
	e.machine.finder.Dismiss(f)
}

// look attaches to what processes have mapped just now, as far as the kernel tells.
func (e *exporter) look() error {
	changed := e.forgetAll((*tracing).changed)
	if e.watcher == nil {
		return nil
	}
	finder := e.machine.finder
	pids, all := e.watcher.Mapped(func(pid int, m *target.Mapping) bool { return !e.asks() && finder.Knows(pid, m) })
	if all {
		finder.Doubt()
	}
	if all || changed {
		return e.scan(false)
	}
	missed, err := scanEach(finder, append(pids, finder.Waiting()...), e.attach)
	e.missed.Add(uint64(missed))
	return err
}

// forgetAll detaches all rules from the files that which returns for one of them, and reports
// whether there are any.
func (e *exporter) forgetAll(which func(*tracing) []*target.File) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	gone := map[*target.File]bool{}
	for _, r := range e.rules() {
		for _, f := range which(r.trace()) {
			gone[f] = true
		}
	}
	for f := range gone {
		for _, r := range e.rules() {
			r.trace().drop(f)
		}
		e.machine.finder.Forget(f)
	}
	return len(gone) > 0
}

// group finds new control groups: before their processes fire, so that they are counted if
// they are meant, and before they are gone, so that their containers are known.
func (e *exporter) group() error {
	if !e.cgroups.Changed() {
		return nil
	}
	now := e.cgroups.All()
	for _, r := range e.rules() {
		if err := r.cgroups().update(now); err != nil {
			return err
		}
	}
	return nil
}

// asks reports whether a rule asks for the processes that have its probes.
func (e *exporter) asks() bool {
	return slices.ContainsFunc(e.metrics, func(m *metricRule) bool { return m.found != nil })
}

// forget detaches from files that nothing can map again, and removes what belongs to
// processes that have ended.
func (e *exporter) forget() error {
	e.forgetAll((*tracing).stale)
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, r := range e.rules() {
		errs = append(errs, r.sweep())
	}
	return errors.Join(errs...)
}

// longestRest is how long a new set of probes can be there before it is found. Where the
// kernel tells what processes map, it is found at once, and looking for it is for certainty.
const longestRest = 2 * time.Second

// run goes on until ctx is done.
func (e *exporter) run(ctx context.Context, hangup <-chan os.Signal) error {
	var checked, scanned time.Time
	rest := longestRest
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangup:
			if err := e.reload(); err != nil {
				return err
			}
		case <-time.After(20 * time.Millisecond):
		}
		if err := e.group(); err != nil {
			return err
		}
		if err := e.look(); err != nil {
			return err
		}
		for _, s := range e.spans {
			if err := s.read(false); err != nil {
				return err
			}
		}
		if time.Since(checked) > interval {
			checked = time.Now()
			if err := e.check(); err != nil {
				return err
			}
		}
		if start := time.Now(); start.Sub(scanned) > rest {
			if err := e.scan(false); err != nil {
				return err
			}
			scanned = time.Now()
			if e.watcher == nil {
				rest = max(interval, min(scanning*scanned.Sub(start), longestRest))
			}
		}
	}
}

// check reads the rules file if it has changed, and forgets what is gone.
func (e *exporter) check() error {
	if e.changed() {
		if err := e.reload(); err != nil {
			return err
		}
	}
	return e.forget()
}

// detach ends the counting. What was counted can still be asked for.
func (e *exporter) detach() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, r := range e.rules() {
		errs = append(errs, r.trace().detach())
	}
	for _, s := range e.spans {
		errs = append(errs, s.read(true))
	}
	return errors.Join(errs...)
}

// close releases everything, also if a scrape is still being answered.
func (e *exporter) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.rules() {
		r.close()
	}
	if e.watcher != nil {
		e.watcher.Close()
	}
	if e.made != nil {
		e.made.Close()
	}
	if e.machine != nil {
		e.machine.finder.Close()
	}
}
