//go:build linux

package run

import (
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/text"
)

// Announce prints the numbers of probes and processes, if the command is verbose or writes to a terminal: nothing else is printed
// before the first event or the end.
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
	r.Warn("%s", Announcement(len(names), processes, files, r.Duration))
}

// Announces reports whether the command prints an announcement.
func (c *Config) Announces(to *console.Console) bool { return c.Verbose || console.IsTerminal(to.Err) }

// stopped warns of stopped processes, which fire nothing.
func (r *Run) stopped() {
	for _, pid := range r.PIDs {
		if state := proc.Stat(pid, 0); state == "T" || state == "t" {
			r.Warn("process %d is stopped, by a signal or a debugger, and fires nothing until it continues", pid)
		}
	}
}

// WarnExited prints that the named processes have exited, which has ended the run.
func (c *Config) WarnExited(to *console.Console) {
	if len(c.PIDs) == 1 {
		to.Warn("process %d has exited", c.PIDs[0])
		return
	}
	to.Warn("processes %s have exited", text.PIDs(c.PIDs))
}

// Announcement returns a line with the number of probes, the number of their processes (or of their files if the
// processes are unknown), and how the command ends.
func Announcement(probes, processes, files int, duration time.Duration) string {
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
