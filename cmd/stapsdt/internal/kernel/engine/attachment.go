//go:build linux

package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
)

// retryDelay is the time after which an attempt that failed for a shortage is repeated.
const retryDelay = 2 * time.Second

// file is the engine's state of a file.
type file struct {
	*target.File
	has         map[*Subscription]bool // whether it has probes that a subscription selects
	attachments []*attachment
	used        time.Time       // when a process that maps the file was last seen
	retry       time.Time       // the earliest time of the next attempt after a shortage, or zero
	twice       map[int]bool    // the processes that have mapped it twice, which was reported
	leftOut     bool            // whether it was reported that its code is moved
	number      uint64          // differs for all files so far
	withdrawn   map[string]bool // the probes that WithdrawFrom has detached, by bpf.Probe.Key
}

// attachment records the programs that were attached to a file for some subscriptions at the same
// time.
type attachment struct {
	subscriptions []*Subscription
	groups        []*group
	// links holds the links of each group, or nil for a group that is not attached to, by PID.
	// PID 0 stands for all processes. If the file can change while it is attached to, each link
	// is for one process: otherwise the kernel would put the breakpoints of the old content into
	// each process that maps the new content.
	links map[int][]*lease.Attachment
	late  map[int]*group // the groups to which an attempt to attach goes on, by PID
}

// wanted reports whether a subscription selects a probe of the file.
func (f *file) wanted() bool {
	for _, has := range f.has {
		if has {
			return true
		}
	}
	return false
}

// needed reports whether the file has to stay open.
func (f *file) needed() bool { return f.wanted() || len(f.attachments) > 0 }

// waiting returns the subscriptions that select probes of the file and are not attached to it.
func (f *file) waiting(all []*Subscription) (waiting []*Subscription) {
	for _, s := range all {
		attached := slices.ContainsFunc(f.attachments, func(a *attachment) bool {
			return slices.Contains(a.subscriptions, s)
		})
		if f.has[s] && !attached && s.ready() {
			waiting = append(waiting, s)
		}
	}
	return waiting
}

// attach attaches to the selected probes of a file, unless that was done before. It postpones
// what fails because of a shortage.
func (e *Engine) attach(f *file, uses []probes.Use) error {
	f.used = time.Now()
	if lower := e.files[f.Lower]; lower != nil {
		lower.used = f.used
	}
	if f.used.Before(f.retry) {
		e.pace.want(f.retry)
		return nil
	}
	everywhere := e.Everywhere(f.File)
	if f.Moves != nil {
		if uses = e.unmoved(f, uses); len(uses) == 0 {
			return nil
		}
		everywhere = false
	}
	complete, err := e.join(f, uses)
	if err != nil {
		return err
	}
	pids := []int{0}
	if !everywhere {
		pids = pidsOf(uses)
	}
	for _, a := range f.attachments {
		if done, err := e.attachProcesses(f, a, pids); !done {
			return err
		}
	}
	if complete {
		f.retry = time.Time{}
	}
	return nil
}

func pidsOf(uses []probes.Use) (pids []int) {
	for _, u := range uses {
		pids = append(pids, u.PID)
	}
	return pids
}

// attachProcesses attaches to a file in some processes, or in all for PID 0. It reports false if it
// has postponed the rest because of a shortage, or for an error.
func (e *Engine) attachProcesses(f *file, a *attachment, pids []int) (done bool, err error) {
	for _, pid := range pids {
		err := e.attachProcess(f, a, pid)
		if stall.Passes(err) {
			e.postpone(f, err, a.subscriptions)
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// unmoved returns the processes in which to attach to a file whose code programs move: those that
// were running when the command that names them began, and have not moved it. Elsewhere a program
// may be about to move it, and would copy the breakpoints.
func (e *Engine) unmoved(f *file, uses []probes.Use) (unmoved []probes.Use) {
	f.attachments = slices.DeleteFunc(f.attachments, func(a *attachment) bool {
		everywhere := a.links[0] != nil
		if everywhere {
			_ = a.detach().Close()
		}
		return everywhere
	})
	if e.kernel.PerProcess() {
		unmoved = slices.DeleteFunc(slices.Clone(uses), func(u probes.Use) bool {
			return u.Moved || !slices.Contains(e.options.Named, u.PID)
		})
	}
	none := len(unmoved)+len(f.attachments) == 0
	if (none || len(unmoved) < len(uses)) && !f.leftOut {
		f.leftOut = true
		err := fmt.Errorf("%w; the file is left out, because a breakpoint that is moved ends the program", f.Moves)
		if e.running || e.options.Daemon {
			e.options.Problem(err)
		} else {
			e.leftOut = append(e.leftOut, err)
		}
	}
	if e.running {
		f.retry = time.Time{}
		return nil
	}
	return unmoved
}

// LeftOut returns the reasons why files were left out before Run, if no daemon has reported them.
func (e *Engine) LeftOut() []error { return e.leftOut }

// postpone schedules a retry for a file that a shortage keeps from being attached to, and tells the
// subscriptions once.
func (e *Engine) postpone(f *file, short error, subscriptions []*Subscription) {
	e.crowd(short)
	if f.retry.IsZero() {
		for _, s := range subscriptions {
			s.Problem(fmt.Errorf("%s: %w; trying again", f.Path, short))
		}
	}
	f.retry = time.Now().Add(retryDelay)
	e.pace.want(f.retry)
}

// Short reports whether a file awaits another attempt to attach to it after a shortage.
func (e *Engine) Short() bool {
	for _, f := range e.files {
		if !f.retry.IsZero() {
			return true
		}
	}
	return false
}

// Incomplete reports whether the last scan has put off a file, in which probes may be found later.
func (e *Engine) Incomplete() bool { return e.putOff }

// Everywhere reports whether a file is attached to in all processes at once. Without uprobe_multi,
// this is the only way to reach all threads of a process.
func (e *Engine) Everywhere(f *target.File) bool { return f.Guarded() || !e.kernel.PerProcess() }

// attachProcess attaches to a file in one process, or in all if pid is 0. When it is called again
// after a shortage, it continues where it stopped.
func (e *Engine) attachProcess(f *file, a *attachment, pid int) error {
	if a.links[pid] == nil { // Restore looks for the PIDs there
		a.links[pid] = make([]*lease.Attachment, len(a.groups))
	}
	if a.complete(pid) {
		return nil
	}
	if a.late[pid] != nil {
		return stall.Err
	}
	defer f.Charge(time.Now())
	held, err := f.Hold()
	if err != nil {
		return nil // the file is looked at again when it has been written
	}
	defer held.Let()
	for i, g := range a.groups {
		if !a.lacks(pid, i) {
			continue
		}
		if !f.Affords(e.mostLinks(g)) {
			return nil
		}
		at := attempt{f, a, g, pid}
		links, err := e.kernel.Attach(g.Program, f.File, g.sites, pid, e.later(at, held))
		if err == stall.ErrLate {
			a.late[pid] = g
		}
		if err := e.record(at.result(held, links, err)); err != nil {
			return err
		}
	}
	return nil
}

// complete reports whether no group is left to attach to in a process.
func (a *attachment) complete(pid int) bool {
	for i := range a.groups {
		if a.lacks(pid, i) {
			return false
		}
	}
	return true
}

// lacks reports whether the i-th group is to be attached to in a process, and is not.
func (a *attachment) lacks(pid, i int) bool {
	return a.links[pid][i] == nil && !a.groups[i].withdrawn
}

// mostLinks returns the number of links of a group in a process, unless the kernel refuses a site.
func (e *Engine) mostLinks(g *group) int {
	if e.kernel.PerProcess() {
		return 1
	}
	return len(g.sites)
}

// attached counts the sites of a result, or reports its error.
func (e *Engine) attached(r *result) error {
	if r.err == nil {
		r.group.count(len(r.group.sites))
		return nil
	}
	r.group.count(r.links) // each site has its own if they could not all be attached to at once
	return e.refuse(r.file, r.group, r.err)
}

// refuse tells the subscriptions of a group that some of its sites could not be attached to. If
// the error is a refusal, it may end the engine.
func (e *Engine) refuse(f *file, g *group, err error) error {
	var refused *rights.Error
	for _, s := range g.subscriptions {
		if !errors.As(err, &refused) {
			s.Problem(fmt.Errorf("%s: %w", f.Path, err))
		} else if err := e.fatal(s, refused); err != nil {
			return err
		}
	}
	return nil
}

// count records the number of sites that were attached to in a process. Other processes may have
// more.
func (g *group) count(sites int) {
	if more := sites - g.attached; more > 0 {
		g.add(more)
	}
	for _, s := range g.subscriptions {
		if sites > 0 {
			s.attached.Store(time.Now().UnixNano())
		}
	}
}

func (g *group) add(sites int) {
	g.attached += sites
	for _, s := range g.subscriptions {
		s.sites.Add(int64(sites))
	}
}

// detach removes all links, and returns them for the caller to close.
func (a *attachment) detach() Links {
	for _, g := range a.groups {
		g.add(-g.attached)
	}
	return a.detachFrom(func(int) bool { return true })
}

// detachFrom removes the links in some processes, and returns them for the caller to
// close.
func (a *attachment) detachFrom(ended func(pid int) bool) (all Links) {
	for pid, links := range a.links {
		if !ended(pid) {
			continue
		}
		for _, l := range links {
			if l != nil {
				all = append(all, l)
			}
		}
		delete(a.links, pid)
		delete(a.late, pid)
	}
	return all
}

// drop detaches from a file, and closes it. The file is attached to again if a process that maps
// it is found.
func (e *Engine) drop(f *file) {
	defer f.Charge(time.Now())
	for _, a := range f.attachments {
		_ = a.detach().Close()
	}
	delete(e.files, f.File)
	e.unload(f)
	for _, s := range e.subscriptions {
		s.Selector.Drop(f.File)
	}
	e.finder.Drop(f.File)
}

const (
	// deletedFileTTL is the time for which a file that no process can map again stays open
	// after its last use.
	deletedFileTTL = 30 * time.Second
	// fileTTL is the time for which any other file stays open after its last use. stapsdt clean
	// leaves files that are open.
	fileTTL = 10 * time.Minute
)

// purge detaches from processes that have ended, and drops files that no process has mapped for a
// while. Files that nothing can map again go sooner: deleted files, such as the images of
// processes that have ended, and files whose file system is gone, such as a container's. Unmapped
// files that others could change go at once, and if descriptors are short, so do all unmapped
// files.
func (e *Engine) purge() {
	crowded := e.crowded
	e.crowded = false
	scans := e.Scans()
	for _, f := range e.files {
		f.purge(e.processes)
		unseen, unused := f.used.Before(e.scanned), time.Since(f.used)
		if f.Moves != nil && !f.Unreachable() { // nor from the next process
			continue
		}
		// The rest after a scan can be longer than unused.
		if f.used.IsZero() || e.isNamed(f.File) || scans && !unseen {
			continue
		}
		if unused > fileTTL || (crowded || !f.Guarded()) && unseen ||
			unused > deletedFileTTL && f.Unreachable() {
			e.drop(f)
		}
	}
}

// purge detaches from processes that have ended.
func (f *file) purge(processes Processes) {
	defer f.Charge(time.Now())
	var ended Links
	gone := func(pid int) bool { return pid != 0 && !processes.Alive(pid) }
	for _, a := range f.attachments {
		ended = append(ended, a.detachFrom(gone)...)
	}
	_ = ended.Close()
}
