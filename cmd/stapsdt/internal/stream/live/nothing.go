//go:build linux

package live

import (
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// ReportEnd prints how the named processes have ended, if this has ended the run. It returns an
// error if no program has ever shown a selected probe.
func (f *Feed) ReportEnd() error {
	if f.exited {
		says := map[int]string{}
		for _, exit := range f.ends.Ended() {
			if exit.Status != 0 {
				says[exit.PID] = exit.String()
			}
		}
		f.WarnExited(f.config.PIDs, says)
	}
	if f.shown || f.HasSelected() {
		return nil
	}
	return fmt.Errorf("%w: nothing was ever watched, because no process that listens had %s",
		query.ErrNothing, spec.Join(f.config.Specs, " or "))
}

// shows reports whether a program shows a selected probe.
func (f *Feed) shows(p *program) bool {
	return slices.ContainsFunc(p.Probes, func(p *recording.Probe) bool {
		return f.Selects(p.Provider, p.Name)
	})
}

// warnLacking warns of the named processes that have none of the selected probes.
func (f *Feed) warnLacking() {
	shows := map[int]bool{}
	for p := range f.answered() {
		shows[p.PID] = f.shows(p)
	}
	f.Console.WarnLacking(f.config.PIDs, func(pid int) bool { return !proc.FamilyIn(pid, shows) })
}
