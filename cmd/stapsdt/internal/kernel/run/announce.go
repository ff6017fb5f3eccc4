//go:build linux

package run

import (
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/sdt"

	"golang.org/x/sys/unix"
)

// Announce prints the numbers of probes and processes, if the command is verbose or writes to a
// terminal: nothing else is printed before the first event or the end.
func (r *Run) Announce() {
	if !r.Console.Announces(r.Verbose) || r.subscription.Sites() == 0 {
		return
	}
	names := map[string]bool{}
	files := 0
	r.engine.Files(func(f *target.File) {
		files++
		for i := range f.Probes {
			if p := &f.Probes[i]; r.Selector.Names(f, p) {
				names[p.Provider+":"+p.Name] = true
			}
		}
	})
	processes := 0
	if r.processes != nil {
		processes = len(r.processes.List())
	}
	r.Warn("%s", console.Announcement(len(names), processes, files, r.Duration))
	if r.Verbose {
		r.noteDispatch()
	}
}

// noteDispatch warns of named processes that may handle system calls themselves, if this kernel
// makes system calls of some of their sites. Go handles every signal, so its programs are left out.
func (r *Run) noteDispatch() {
	calls := site.Chosen() // a nop of more than one byte becomes a call
	if calls == nil || len(calls.Code) == 1 {
		return
	}
	uses := false
	r.engine.Files(func(f *target.File) {
		uses = uses || slices.ContainsFunc(f.Probes, func(p sdt.Site) bool {
			return r.Selector.Selects(f, &p) && f.Nop(&p) == calls.Name
		})
	})
	for _, pid := range r.PIDs {
		if uses && proc.Handles(pid, unix.SIGSYS) && !target.IsGo(pid) {
			r.Warn("process %d handles SIGSYS, and its sites of %d bytes become system calls: if it handles system calls itself, as Wine does, most events are missing: see %s", pid, len(calls.Code), endsPage)
		}
	}
}

// warnLeft warns of processes that outlive the COMMAND, such as a daemon, because the run ends with
// it.
func (r *Run) warnLeft() {
	if !r.Command.Ended() {
		return
	}
	gone := func(pid int) bool { return !proc.Alive(pid) }
	switch left := slices.DeleteFunc(r.processes.List(), gone); len(left) {
	case 0:
	case 1:
		r.Warn("process %d, which the COMMAND has started, still runs but is no longer traced: trace it with -p %d", left[0], left[0])
	default:
		slices.Sort(left)
		r.Warn("processes %s, which the COMMAND has started, still run but are no longer traced: trace them with -p", text.PIDs(left))
	}
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
