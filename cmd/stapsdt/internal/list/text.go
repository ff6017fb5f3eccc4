//go:build linux

package list

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

func (l *lister) text(out *bufio.Writer, f *target.File, probes []*listedProbe) {
	fmt.Fprint(out, render.Printable(f.Path))
	if len(probes) > 0 && len(probes[0].pids) > 0 {
		fmt.Fprintf(out, " (%s)", processList(probes[0].pids))
	}
	fmt.Fprintln(out)
	if len(probes) > 0 {
		l.podText(out, probes[0].pids)
		if pids := l.listeningOf(probes[0].pids); len(pids) > 0 {
			fmt.Fprintf(out, "  can be watched without root: %s\n", processList(pids))
		}
		l.recordings(out, probes[0].pids)
	}
	for _, lp := range probes {
		var notes []string
		if len(lp.sites) > 1 {
			notes = append(notes, fmt.Sprintf("%d sites", len(lp.sites)))
		}
		if lp.semaphore() {
			notes = append(notes, "semaphore")
		}
		switch n := len(lp.traced); {
		case n > 0 && n == len(lp.sites):
			notes = append(notes, "traced now")
		case n > 0:
			notes = append(notes, fmt.Sprintf("traced now at %d of them", n))
		}
		line := fmt.Sprintf("  %s(%s)", render.Printable(lp.name), spec.Signature(lp.sites[0]))
		if len(notes) > 0 {
			line += "  # " + strings.Join(notes, ", ")
		}
		fmt.Fprintln(out, line)
		if !l.options.Verbose {
			continue
		}
		for _, site := range lp.sites {
			fmt.Fprintf(out, "      at %#x", site.Offset)
			if site.SemaphoreOffset != 0 {
				fmt.Fprintf(out, ", semaphore %#x", site.SemaphoreOffset)
			}
			for _, a := range site.Args {
				fmt.Fprintf(out, " %s", render.Printable(a.String()))
			}
			fmt.Fprintln(out)
			for i, a := range site.Args {
				if a.Err != nil {
					fmt.Fprintf(out, "      argument %d cannot be read: %v\n", i, a.Err)
				}
			}
		}
	}
}

// listeningOf returns those processes that listen.
func (l *lister) listeningOf(pids []int) (listening []int) {
	for _, pid := range pids {
		if slices.ContainsFunc(l.listening, func(one *listener) bool { return !one.Elsewhere && one.PID == pid }) {
			listening = append(listening, pid)
		}
	}
	return listening
}

// processList returns "process 12" or "processes 12, 13 and 5 others".
func processList(pids []int) string {
	if len(pids) == 1 {
		return fmt.Sprintf("process %d", pids[0])
	}
	const most = 8
	var all []string
	for _, pid := range pids[:min(len(pids), most)] {
		all = append(all, fmt.Sprint(pid))
	}
	if len(pids) > most {
		return fmt.Sprintf("processes %s and %d others", strings.Join(all, ", "), len(pids)-most)
	}
	return "processes " + strings.Join(all, ", ")
}
