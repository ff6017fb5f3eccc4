//go:build linux

package run

import (
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

// Announce prints on a terminal what the command has attached to, because it prints nothing else
// until it ends.
func (r *Run) Announce() {
	if !console.IsTerminal(r.Err) || r.subscription.Sites() == 0 {
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
	r.Warn("%s", announcement(len(names), processes, files, r.Duration))
}

// announcement returns the numbers of probes and of their processes, or of their files if the
// processes are not known, and what ends the command.
func announcement(probes, processes, files int, duration time.Duration) string {
	of := render.Number(files, "file")
	switch {
	case processes == 1:
		of = "1 process"
	case processes > 1:
		of = fmt.Sprintf("%d processes", processes)
	}
	end := "Ctrl-C ends"
	if duration > 0 {
		end = fmt.Sprintf("ends after %v or with Ctrl-C", duration)
	}
	return fmt.Sprintf("%s of %s; %s", render.Number(probes, "probe"), of, end)
}
