//go:build linux

package run

import (
	"maps"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/follow"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"

	"github.com/cilium/ebpf"
)

// exits warns of traced processes that were ended by a signal that a tracer can cause.
type exits struct {
	run     *Run
	crashes *follow.Crashes // nil if the kernel does not report them
	used    map[int]bool    // the processes that use traced files, unless the user named processes
	unknown []proc.Exit     // the crashes of the last look by processes not known to be traced
	warned  map[int]bool
	due     time.Time
}

func newExits(r *Run) *exits {
	return &exits{run: r, used: map[int]bool{}, warned: map[int]bool{}}
}

// maxUsed is the maximum number of processes that are remembered.
const maxUsed = 1 << 14

// maxCrashes is the maximum number of crashes that a run reports.
const maxCrashes = 16

// use notes a process that uses a traced file.
func (x *exits) use(pid int) {
	if x.used[pid] {
		return
	}
	if len(x.used) >= maxUsed {
		maps.DeleteFunc(x.used, func(pid int, _ bool) bool { return !proc.Alive(pid) })
	}
	if len(x.used) < maxUsed {
		x.used[pid] = true
	}
}

// begin begins to look for crashes, before the first site is attached to.
func (x *exits) begin() {
	var selected *ebpf.Map
	if x.run.processes != nil {
		selected = x.run.processes.Set
	}
	x.crashes, _ = follow.NewCrashes(selected, x.run.Env.Namespace)
}

// check looks for crashes if it is time, and returns the time until the next look.
func (x *exits) check() (next time.Duration) {
	if left := time.Until(x.due); left > 0 {
		return left
	}
	x.look()
	x.due = time.Now().Add(query.Rest)
	return query.Rest
}

// look warns of crashes. A process that is not known to be traced may become known by the next
// look, because a new process is known only after it has mapped the file.
func (x *exits) look() {
	for _, exit := range x.named() {
		if exit.Crashed() {
			x.warn(exit)
		}
	}
	if x.crashes == nil {
		return
	}
	fresh := x.crashes.Take()
	for _, exit := range slices.Concat(x.unknown, fresh) {
		if x.run.processes != nil || x.used[exit.PID] {
			x.warn(exit)
		}
	}
	x.unknown = fresh
}

// named returns the ends of the processes that the user has named.
func (x *exits) named() []proc.Exit {
	if x.run.processes == nil {
		return nil
	}
	return x.run.processes.Exits()
}

// endsPage is the section on programs that end because they are traced.
const endsPage = "docs/nothing-shows.md#the-program-ends-as-soon-as-a-tracer-is-attached"

func (x *exits) warn(exit proc.Exit) {
	switch {
	case x.warned[exit.PID] || len(x.warned) > maxCrashes:
		return
	case len(x.warned) == maxCrashes:
		x.run.Warn("more traced processes were ended by signals, which are not reported one by one")
	default:
		x.run.Warn("%v while it was traced: see %s", exit, endsPage)
	}
	x.warned[exit.PID] = true
}

// report prints the crashes that were not reported yet and, if the run has ended because the named
// processes have, how these have ended.
func (x *exits) report(ended bool) {
	if ended {
		x.run.processes.Ended()
	}
	x.look()
	if !ended {
		return
	}
	says := map[int]string{}
	for _, exit := range x.named() {
		if x.warned[exit.PID] {
			says[exit.PID] = ""
		} else if exit.Status != 0 {
			says[exit.PID] = exit.String()
		}
	}
	x.run.Console.WarnExited(x.run.PIDs, says)
}

func (x *exits) close() {
	if x.crashes != nil {
		x.crashes.Close()
	}
}
