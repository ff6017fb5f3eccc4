//go:build linux

package engine

import (
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/internal/tracer"
)

// attachLoaded attaches to the probes that processes have loaded, and lets these go on.
func (e *Engine) attachLoaded() error {
	pids, proceed := e.processes.Loaded()
	var waiting []int // those that have selected probes, or may have had some and have ended
	defer func() { e.reportLate(waiting, proceed()) }()
	for _, pid := range pids {
		selected, err := e.attachIn(pid)
		if err != nil {
			return err
		}
		if selected {
			waiting = append(waiting, pid)
		}
	}
	return nil
}

// attachIn attaches to the probes of a process, and reports whether there are selected ones. It
// reports true for a process that is ending, and has no memory any longer.
func (e *Engine) attachIn(pid int) (selected bool, err error) {
	if !e.processes.Has(pid) {
		return pid != 0 && !e.processes.Alive(pid), nil
	}
	found, _ := e.lookAt([]int{pid}, nil) // which fails for named ones only
	e.retry(found.Short)
	if !found.Any {
		return true, nil
	}
	e.tellFound(found, false)
	late := e.unattached(found)
	if err := e.attachTo(found); err != nil {
		return false, err
	}
	e.reach(found, late)
	return slices.ContainsFunc(found.Files, e.isWanted), nil
}

// isWanted reports whether a file that was found has selected probes.
func (e *Engine) isWanted(f *target.File) bool {
	state := e.files[f]
	return state != nil && state.wanted()
}

// reportLate reports the waiting processes that have gone on too early.
func (e *Engine) reportLate(waiting, late []int) {
	for _, pid := range late {
		if slices.Contains(waiting, pid) {
			e.options.Problem(fmt.Errorf("process %d went on before it was attached to: its first "+
				"events may be missing, because it waits for at most %v", pid, tracer.Patience))
		}
	}
}
