//go:build linux

package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/tracer"
)

// attachLoaded attaches to the probes that processes have loaded, and lets these go on.
func (e *Engine) attachLoaded() error {
	pids, proceed := e.processes.Loaded()
	waiting := map[int]bool{} // whether those that wait for attaching are attached to
	defer func() { e.reportLate(waiting, proceed()) }()
	for _, pid := range pids {
		selected, attached, err := e.attachIn(pid)
		if err != nil {
			return err
		}
		if selected {
			waiting[pid] = attached
		}
	}
	return nil
}

// attachIn attaches to the probes of a process, and reports whether there are selected ones, and
// whether all of these are attached to. A process that is ending has no memory any longer: it may
// have had some.
func (e *Engine) attachIn(pid int) (selected, attached bool, err error) {
	if !e.processes.Has(pid) {
		return pid != 0 && !e.processes.Alive(pid), true, nil
	}
	found, _ := e.lookAt([]int{pid}, nil) // which fails for named ones only
	e.retry(found.Short)
	if !found.Any {
		return true, true, nil
	}
	e.tellFound(found, false)
	late := e.unattached(found)
	if err := e.attachTo(found); err != nil {
		return false, false, err
	}
	e.reach(found, late)
	attached = true
	for _, f := range found.Files {
		if state := e.files[f]; state != nil && state.wanted() {
			selected, attached = true, attached && state.retry.IsZero()
		}
	}
	return selected, attached, nil
}

// reportLate reports the waiting processes that have gone on too early: those in late, and those
// that are not attached to yet.
func (e *Engine) reportLate(waiting map[int]bool, late []int) {
	for _, pid := range slices.Sorted(maps.Keys(waiting)) {
		if attached := waiting[pid]; !attached || slices.Contains(late, pid) {
			e.options.Problem(fmt.Errorf("process %d went on before it was attached to: its first "+
				"events may be missing, because it waits for at most %v", pid, tracer.Patience))
		}
	}
}
