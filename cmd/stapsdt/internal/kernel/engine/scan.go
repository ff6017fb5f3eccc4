//go:build linux

package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/sdt"

	"golang.org/x/sys/unix"
)

// Scans reports whether the processes are scanned. They are not if all files are named and attached
// to in all processes.
func (e *Engine) Scans() bool {
	return e.options.Scan ||
		slices.ContainsFunc(e.named(), func(f *target.File) bool { return !e.Everywhere(f) })
}

// asks reports whether a subscription needs the processes that have mapped its files.
func (e *Engine) asks() bool {
	return slices.ContainsFunc(
		e.subscriptions, func(s *Subscription) bool { return s.ProcessFound != nil },
	)
}

// watch starts watching mappings at its first call, if that is permitted.
func (e *Engine) watch() {
	if watch := e.options.Watch; watch != nil {
		e.options.Watch = nil
		if w, err := watch(); err == nil {
			e.watcher = w
		}
	}
}

// Scan attaches to the selected probes of the named files and of the files that processes have
// mapped. Before Run, a named process that has exited or cannot be read is an error.
func (e *Engine) Scan() (found *probes.Found, err error) {
	e.watch()
	start, used := time.Now(), e.processorTime()
	if found, err = e.lookAtAll(); err != nil {
		err = e.fatal(nil, err)
	}
	end := time.Now()
	e.scanTime.Add(int64(end.Sub(start)))
	e.pace.spend(start, end, e.processorTime()-used)
	if found == nil {
		return &probes.Found{}, err
	}
	e.complete(found)
	e.tellFound(found, true)
	late := e.unattached(found)
	err = e.attachTo(found)
	e.reach(found, late)
	return found, err
}

// lookAtAll finds the files of all processes, or none if Scans reports false. It also finds the
// files whose mappings the kernel failed to report.
func (e *Engine) lookAtAll() (*probes.Found, error) {
	lost := e.lost
	e.lost = false
	if !e.Scans() {
		return &probes.Found{}, nil
	}
	if lost || e.watcher == nil {
		e.finder.Recheck()
	}
	start := time.Now()
	pids, err := e.processes.List()
	if err != nil {
		return nil, err
	}
	var named []int // processes that must not end
	if !e.running {
		named = e.options.Named
	}
	found, err := e.lookAt(e.finder.Order(pids), named)
	if err == nil {
		e.scanned = start
	}
	return found, err
}

// lookAt finds the files with selected probes that processes have mapped. It closes the other
// files of each process before it looks at the next, so that few are open at the same time.
func (e *Engine) lookAt(pids, named []int) (*probes.Found, error) {
	return probes.Look(e.finder.Process, pids, named, func(f *target.File) bool {
		if e.match(f); e.files[f].needed() || e.isNamed(f) {
			return true
		}
		delete(e.files, f)
		e.finder.Ignore(f)
		return false
	})
}

// match finds out which subscriptions select probes of a file.
func (e *Engine) match(f *target.File) {
	state := e.files[f]
	if state == nil {
		e.numbered++
		state = &file{File: f, has: map[*Subscription]bool{}, number: e.numbered}
		e.files[f] = state
	}
	for _, s := range e.subscriptions {
		if _, known := state.has[s]; !known {
			state.has[s] = s.Selector.Find(f)
		}
	}
}

// attachTo attaches to the named files and to the found files.
func (e *Engine) attachTo(found *probes.Found) error {
	files := slices.Concat(e.named(), found.Files)
	for _, f := range files {
		e.match(f) // before the first is attached to, because some subscriptions need several files
		e.use(f, found.Uses[f])
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
			e.reportTwice(state, found.Uses[f])
			if err := e.attach(state, found.Uses[f]); err != nil {
				return err
			}
		}
	}
	return nil
}

// use tells Options.Used of the processes that use a selected file.
func (e *Engine) use(f *target.File, uses []probes.Use) {
	if e.options.Used == nil || !e.files[f].wanted() {
		return
	}
	for _, pid := range f.Running {
		e.options.Used(pid)
	}
	for _, u := range uses {
		e.options.Used(u.PID)
	}
}

// reportTwice reports, once, each process that has mapped the semaphore of a selected site of a
// file twice.
func (e *Engine) reportTwice(f *file, uses []probes.Use) {
	selected := func(site *sdt.Site) bool {
		return slices.ContainsFunc(e.subscriptions, func(s *Subscription) bool {
			return s.Selector.Selects(f.File, site)
		})
	}
	for _, u := range uses {
		twice := func(site sdt.Site) bool { return u.Twice(&site) && selected(&site) }
		if f.twice[u.PID] || !slices.ContainsFunc(f.Probes, twice) {
			continue
		}
		if f.twice == nil {
			f.twice = map[int]bool{}
		}
		f.twice[u.PID] = true
		e.options.Problem(fmt.Errorf("%s is mapped twice in process %d, and the kernel enables the probes of one copy only", f.Path, u.PID))
	}
}

// tell notifies the subscriptions of a file that a process has mapped it.
func (e *Engine) tell(f *file, pid int) error {
	for _, s := range e.subscriptions {
		if f.has[s] && s.ProcessFound != nil {
			if err := e.fatal(s, s.ProcessFound(pid)); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete reports a shortage that kept processes from being read, once until a scan succeeds, and
// the files that were left out.
func (e *Engine) complete(found *probes.Found) {
	if found.Short != nil && !e.short {
		e.options.Problem(fmt.Errorf("%w; trying again", found.Short))
	}
	e.crowd(found.Short)
	e.retry(found.Short)
	e.short, e.putOff = found.Short != nil, found.PutOff != nil
	for _, err := range e.options.Skips.Unsaid() {
		e.options.Problem(err)
	}
}

// retry schedules a scan after an error that may be temporary.
func (e *Engine) retry(err error) {
	if stall.Passes(err) {
		e.pace.want(time.Now().Add(retryDelay))
	}
}

// crowd notes whether an error is a shortage of descriptors.
func (e *Engine) crowd(err error) {
	e.crowded = e.crowded || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// look attaches to files whose mappings the kernel has just reported, and again to files that were
// changed. It scans all processes if a scan is due, or if the kernel dropped reports. waiting means
// that look has to be called again soon.
func (e *Engine) look() (waiting bool, err error) {
	// Ask the kernel before comparing the named files: otherwise a process could have mapped a
	// newer version of one, which would be taken for a file that the command line does not name.
	mapped := mappers{}
	pids := e.reported(mapped)
	changed, waiting, err := e.renew() // some file systems do not report that a file has changed
	if changed {
		e.pace.want(time.Now())
	}
	if err == nil && (e.isDue() || e.lost && e.pace.allowsLost(time.Now())) {
		_, err = e.Scan()
	}
	if err != nil || e.watcher == nil {
		return waiting, err
	}
	written := e.finder.Waiting()
	for _, pid := range e.finder.Order(slices.Concat(pids, written)) {
		if !e.processes.Has(pid) {
			continue
		}
		found, _ := e.lookAt([]int{pid}, nil) // which fails for named ones only
		e.retry(found.Short)
		late := e.unattached(found)
		if found.Any {
			e.tellFound(found, false)
			if err := e.attachTo(found); err != nil {
				return waiting, err
			}
		}
		e.reach(found, late)
		if !e.processes.Alive(pid) {
			if !found.Any { // the process could not be read, or had no probes
				e.missed.Add(1)
			}
			e.miss(mapped[pid], found, late)
		}
	}
	return waiting || len(written) > 0 || e.lost || e.pace.waits(time.Now()), nil
}

// reported returns the processes with new mappings that the kernel has reported and that may
// matter, and adds the selected ones to mapped. It notes the mappings of files that are attached
// to.
func (e *Engine) reported(mapped mappers) (pids []int) {
	if e.watcher == nil {
		return nil
	}
	attached := sync.OnceValue(e.attachedFiles)
	scans, asks := e.Scans(), e.asks() // if neither, no mapping matters
	see := func(pid int, m *proc.Mapping) {
		p := e.selected(mapped, pid)
		if p == nil {
			return
		}
		// The path of a mapping differs with the mounts of the reader.
		f := attached()[target.ID{Device: m.Device, Inode: m.Inode}]
		switch {
		case f != nil:
			e.mapped(f, pid)
		case scans || asks:
			e.see(p, pid, m)
		}
	}
	pids, lost := e.watcher.Mapped(see, func(pid int, m *proc.Mapping) bool {
		if e.selected(mapped, pid) == nil { // most are not, and comparing files costs more
			return true
		}
		known := !scans && !asks || e.finder.Knows(pid, m) // Knows also compares the file again
		return known && !asks && !e.follows(m)
	})
	e.lost = e.lost || lost
	e.foreign++
	if len(mapped) == 0 || !e.options.Patient || mapped.selected() {
		e.foreign = 0
	}
	return pids
}

func (e *Engine) tellFound(found *probes.Found, all bool) {
	if e.options.Found != nil {
		e.options.Found(found, all)
	}
}

func (e *Engine) follows(m *proc.Mapping) bool {
	return e.options.Follows != nil && e.options.Follows(m)
}

// named returns the files that specs name.
func (e *Engine) named() (files []*target.File) {
	for _, s := range e.subscriptions {
		files = append(files, s.Selector.Files()...)
	}
	return files
}

// isNamed reports whether a spec names the file, so that it is found without a scan.
func (e *Engine) isNamed(f *target.File) bool { return slices.Contains(e.named(), f) }

// renew drops the files that were changed, and attaches again to the named ones. changed means
// that a scan is due. waiting means that a file is still being written, so that renew has to be
// called again soon.
func (e *Engine) renew() (changed, waiting bool, err error) {
	for _, f := range e.files {
		if f.Changed() {
			changed = true
			e.drop(f)
		}
	}
	for _, s := range e.subscriptions {
		reopened, problems := s.Selector.Reopen(e.finder.Open)
		for _, err := range problems {
			s.Problem(err)
		}
		if reopened {
			if err := e.attachTo(&probes.Found{}); err != nil {
				return changed, false, err
			}
		}
		waiting = waiting || s.Selector.Closed()
	}
	return changed, waiting, nil
}
