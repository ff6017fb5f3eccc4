//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

// announce says on a terminal what the command has attached to, because it prints nothing else
// until it ends.
func (t *tracing) announce() {
	if _, ok := winsize(t.stderr); !ok || t.subscription.Sites() == 0 {
		return
	}
	names := map[string]bool{}
	files := 0
	t.engine.Files(func(f *target.File) {
		files++
		for i := range f.Probes {
			if p := &f.Probes[i]; t.selector.Selects(f, p) {
				names[p.Provider+":"+p.Name] = true
			}
		}
	})
	processes := 0
	if t.processes != nil {
		processes = len(t.processes.List())
	}
	t.warn("%s", announcement(len(names), processes, files, t.duration))
}

// announcement says how many probes there are of so many processes, or of files if the processes
// are not known, and what ends the command.
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

// erase returns what removes the lines that were shown before from a terminal. At the end it also
// removes the ^C that the terminal has printed, which would shift the first line.
func erase(lines int, last bool) []byte {
	if lines == 0 && last {
		return []byte("\r\x1b[K")
	}
	return render.Replace(lines)
}
