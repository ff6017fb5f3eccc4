//go:build linux

package run

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// Announce prints the numbers of probes and processes, if the command is verbose or writes to a
// terminal: nothing else is printed before the first event or the end.
func (r *Run) Announce() {
	if !r.Config.Announces(r.Console) || r.subscription.Sites() == 0 {
		return
	}
	names := map[string]bool{}
	files := 0
	r.engine.Files(func(f *target.File) {
		files++
		for i := range f.Probes {
			if p := &f.Probes[i]; r.Selector.Selects(f, p) {
				names[p.Provider+":"+p.Name] = true
			}
		}
	})
	processes := 0
	if r.processes != nil {
		processes = len(r.processes.List())
	}
	r.Warn("%s", query.Announcement(len(names), processes, files, r.Duration))
}

// stopped warns of stopped processes, which fire nothing.
func (r *Run) stopped() {
	if r.Command != nil { // which is held
		return
	}
	for _, pid := range r.PIDs {
		if state := proc.Stat(pid, 0); state == "T" || state == "t" {
			r.Warn("process %d is stopped, by a signal or a debugger, and fires nothing until it continues", pid)
		}
	}
}
