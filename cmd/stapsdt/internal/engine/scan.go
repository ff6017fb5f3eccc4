//go:build linux

package engine

import (
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

// Scans reports whether the processes are looked at: they need not be if all files are named, and
// are attached to in all processes.
func (e *Engine) Scans() bool {
	return e.options.Scan || slices.ContainsFunc(e.named(), func(f *target.File) bool { return !e.Everywhere(f) })
}

// Watch begins to watch what processes map, if that is permitted.
func (e *Engine) Watch() {
	if e.watcher == nil && e.options.Watch != nil {
		if w, err := e.options.Watch(); err == nil {
			e.watcher = w
		}
	}
}

// Look looks at the processes. Before Run it is an error if one of those that were named has
// exited or cannot be read.
func (e *Engine) Look() (*probes.Found, error) {
	if e.watcher == nil {
		e.finder.Doubt()
	}
	start, used := time.Now(), e.processorTime()
	defer func() {
		end := time.Now()
		e.scanTime.Add(int64(end.Sub(start)))
		e.budget.spend(start, end, e.processorTime()-used)
	}()
	e.due, e.lost = false, false
	pids, err := e.processes.List()
	if err != nil {
		return &probes.Found{}, err
	}
	found, err := probes.Look(e.finder, e.finder.Order(pids), e.options.All || e.running, e.keep)
	if err != nil {
		return nil, err
	}
	e.scanned = start
	e.complete(found)
	return found, nil
}

// keep finds out whether a file has selected probes, and closes it otherwise.
func (e *Engine) keep(f *target.File) bool {
	e.find(f)
	if state := e.files[f]; !state.wanted() && len(state.attachments) == 0 && !e.isNamed(f) {
		delete(e.files, f)
		e.finder.Dismiss(f)
		return false
	}
	return true
}

// Attach attaches to the selected probes of files of processes, and of the files that are named.
func (e *Engine) Attach(found *probes.Found) error {
	files := slices.Concat(e.named(), found.Files)
	for _, f := range files {
		e.find(f)
	}
	for _, f := range files {
		for _, u := range found.Uses[f] {
			if err := e.tell(e.files[f], u.PID); err != nil {
				return err
			}
		}
	}
	for _, f := range files {
		if state := e.files[f]; state.wanted() {
			if err := e.attach(state, found.Uses[f]); err != nil {
				return err
			}
		}
	}
	return nil
}

// named returns the files that specs name.
func (e *Engine) named() (files []*target.File) {
	for _, s := range e.subscriptions {
		files = append(files, s.Selector().Files()...)
	}
	return files
}

// find finds out which subscriptions select probes of a file.
func (e *Engine) find(f *target.File) {
	state := e.files[f]
	if state == nil {
		state = &file{File: f, has: map[*Subscription]bool{}}
		e.files[f] = state
	}
	for _, s := range e.subscriptions {
		if _, known := state.has[s]; !known {
			state.has[s] = s.Selector().Find(f)
		}
	}
}

// tell tells the subscriptions of a process that has mapped a file.
func (e *Engine) tell(f *file, pid int) error {
	for _, s := range e.subscriptions {
		if f.has[s] && s.AsksProcesses() {
			if err := e.fatal(s, s.ProcessFound(pid)); err != nil {
				return err
			}
		}
	}
	return nil
}

// scan looks at the processes again, and attaches to what they have mapped.
func (e *Engine) scan() error {
	if !e.Scans() {
		return e.Attach(&probes.Found{}) // to what was put off
	}
	found, err := e.Look()
	if err != nil {
		return e.fatal(nil, err)
	}
	return e.Attach(found)
}

// look attaches to what processes have just mapped, as far as the kernel tells, and again to
// files that were changed. waiting means that it has to be called again soon. If the kernel had no
// room to tell, it looks at all processes, but not all the time while some process maps files in a loop.
func (e *Engine) look() (waiting bool, err error) {
	// Ask the kernel before looking at the files: otherwise a process could have mapped a later version of a file, which would be
	// taken for a file that the command line does not name.
	var pids []int
	if e.watcher != nil {
		var all bool
		// Known files are of interest only if a subscriber asks for the processes.
		asks := slices.ContainsFunc(e.subscriptions, func(s *Subscription) bool { return s.AsksProcesses() })
		pids, all = e.watcher.Mapped(func(pid int, m *target.Mapping) bool { return !asks && e.finder.Knows(pid, m) })
		e.lost = e.lost || all
	}
	changed, waiting, err := e.renew()
	if err == nil && changed {
		err = e.scan()
	}
	if err != nil || e.watcher == nil {
		return waiting, err
	}
	if e.lost && e.budget.affordsLost(time.Now()) {
		e.lost = false
		e.finder.Doubt()
		return waiting, e.scan()
	}
	written := e.finder.Waiting()
	for _, pid := range e.finder.Order(slices.Concat(pids, written)) {
		if !e.processes.Has(pid) {
			continue
		}
		found, err := probes.Look(e.finder, []int{pid}, false, e.keep)
		if err != nil || !found.Any { // it may not be looked at, or has no probes
			if !e.processes.Alive(pid) {
				e.missed.Add(1)
			}
			continue
		}
		if err := e.Attach(found); err != nil {
			return waiting, err
		}
	}
	return waiting || len(written) > 0 || e.lost, nil
}

// renew attaches again to the named files that were changed. changed means that processes have to be looked at, and waiting that
// renew has to be called again soon, because a file is still being written.
func (e *Engine) renew() (changed, waiting bool, err error) {
	for _, f := range e.files {
		if f.Changed() {
			changed = true
			e.drop(f)
			e.finder.Forget(f.File)
		}
	}
	for _, s := range e.subscriptions {
		reopened, problems := s.Selector().Reopen(e.finder)
		for _, err := range problems {
			s.Problem(err)
		}
		if reopened {
			if err := e.Attach(&probes.Found{}); err != nil {
				return changed, false, err
			}
		}
		waiting = waiting || s.Selector().Closed()
	}
	return changed, waiting, nil
}
