//go:build linux

package engine

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Files finds the files of processes, and remembers them. A *target.Finder is one.
type Files interface {
	Process(pid int) (uses []target.Use, skipped error, err error)
	Open(path string) (*target.File, error)
	Knows(pid int, m *proc.Mapping) bool
	Waiting() []int
	// Order returns pids with the processes of users who have exceeded their budget last.
	Order(pids []int) []int
	// Recheck makes it compare all files with what it knows of them, and Reconsider find those again that were ignored.
	Recheck()
	Reconsider()
	// Ignore closes a file without selected probes, which is not found again for a while, and Drop one that is.
	Ignore(f *target.File)
	Drop(f *target.File)
}

// Processes are the processes that files are looked for in.
type Processes interface {
	// List returns them.
	List() ([]int, error)
	// Has reports whether a process is one of them.
	Has(pid int) bool
	// Alive reports whether a process exists, whichever it is.
	Alive(pid int) bool
	// FDs returns descriptors that are readable when one of them has ended, as far as the kernel
	// tells. Ended reports whether one has.
	FDs() []int
	Ended() bool
	// Left removes those that have ended, and reports whether any can still have events.
	Left() bool
}

// Kernel loads programs, and attaches them to sites.
type Kernel interface {
	// Load loads the program of a probe.
	Load(p *bpf.Probe, sections []*bpf.Section) (Program, error)
	Attach(p Program, f *target.File, sites []sdt.Site, pid int) (Links, error)
	// PerProcess reports whether it can attach to sites in one process.
	PerProcess() bool
}

// Program is a program that is loaded.
type Program interface{ Close() error }

// Watcher hears which processes map files. A *proc.Watcher is one.
type Watcher interface {
	Mapped(skip func(pid int, m *proc.Mapping) bool) (pids []int, all bool)
	// Pending reports whether there is something for Mapped.
	Pending() bool
	// FDs returns descriptors that are readable when something is pending.
	FDs() []int
	Close()
}

// Options configure an engine.
type Options struct {
	Files     Files
	Kernel    Kernel
	Processes Processes
	// Skips counts the files that were left out or postponed.
	Skips *target.Skips
	// Broken receives a value when others begin to write to a file. It may be nil.
	Broken <-chan struct{}
	// All means that Processes are all processes of the machine, of which some always end during
	// a scan.
	All bool
	// Scan makes the engine look for files in the processes, and not only at those that specs
	// name.
	Scan bool
	// Watch begins to watch processes. If that is not permitted, the engine polls them.
	Watch func() (Watcher, error)
	// Daemon means that no error ends the engine after it has begun: an error is a problem of the
	// subscriptions that it concerns.
	Daemon bool
	// Problem receives the problems that concern no subscription.
	Problem func(err error)
}

// Engine attaches to probes for its subscriptions.
type Engine struct {
	finder    Files
	kernel    Kernel
	processes Processes
	options   Options

	poller        *poller
	watcher       Watcher // nil if it is not permitted
	running       bool    // whether it has begun, so that it goes on if a new probe is wrong
	subscriptions []*Subscription
	added         uint64 // the number of subscriptions so far, with those that were removed
	files         map[*target.File]*file
	loaded        map[string][]*sharedProgram // by the probe and the subscriptions
	scanned       time.Time                   // when the processes were last looked at
	pace          pace                        // of looking at all of them
	lost          bool                        // whether the kernel had no room to tell what was mapped since
	broken        atomic.Bool                 // whether a file is being written
	short         bool                        // whether a shortage kept processes from being looked at
	crowded       bool                        // whether one of descriptors has kept anything from being done

	processorTime func() time.Duration // of this process, so far

	scanTime atomic.Int64  // nanoseconds
	missed   atomic.Uint64 // processes that had ended before their files could be looked at
}

// New returns an engine without subscriptions.
func New(o Options) (*Engine, error) {
	poller, err := newPoller()
	if err != nil {
		return nil, err
	}
	return &Engine{
		finder: o.Files, kernel: o.Kernel, processes: o.Processes, options: o, poller: poller,
		files: map[*target.File]*file{}, loaded: map[string][]*sharedProgram{}, processorTime: processorTime,
	}, nil
}

// Add adds a subscriber, for which nothing is attached before the next scan.
func (e *Engine) Add(s Subscriber, selection Selection) *Subscription {
	e.added++
	added := &Subscription{Subscriber: s, Selection: selection, id: e.added, sections: map[string]*bpf.Section{}}
	e.subscriptions = append(e.subscriptions, added)
	e.finder.Reconsider()
	e.pace.want(time.Now())
	return added
}

// Remove ends subscriptions. An attachment that another subscription shares remains until that ends too.
func (e *Engine) Remove(gone ...*Subscription) {
	for _, s := range gone {
		s.removed = true
	}
	isRemoved := func(s *Subscription) bool { return s.removed }
	e.subscriptions = slices.DeleteFunc(e.subscriptions, isRemoved)
	var links Links
	for _, f := range e.files {
		for _, s := range gone {
			delete(f.has, s)
		}
		f.attachments = slices.DeleteFunc(f.attachments, func(a *attachment) bool {
			ended := !slices.ContainsFunc(a.subscriptions, func(s *Subscription) bool { return !s.removed })
			if ended {
				links = append(links, a.detach()...)
			}
			return ended
		})
	}
	_ = links.Close()
	for key, all := range e.loaded {
		ended := 0
		for _, l := range all {
			if !slices.ContainsFunc(l.subscriptions, func(s *Subscription) bool { return !s.removed }) {
				l.Close()
				ended++
			}
		}
		if ended == len(all) { // which no other subscriptions have
			delete(e.loaded, key)
		}
	}
}

// ends reports whether an error that concerns a subscription, or all of them for nil, ends the
// engine. Nothing else decides that. Only an error that keeps a daemon from beginning ends it. A
// command ends if something is wrong before it has attached to anything, if attaching is refused,
// and if the processes cannot be listed. A shortage after the beginning ends neither.
func (e *Engine) ends(s *Subscription, err error) bool {
	var refused *rights.Error
	if e.running && (e.options.Daemon || stall.Passes(err)) {
		return false
	}
	return s == nil || errors.As(err, &refused) || !e.options.Daemon && !e.running
}

// fatal returns an error if it ends the engine. Otherwise it tells the problem.
func (e *Engine) fatal(s *Subscription, err error) error {
	switch {
	case err == nil:
		return nil
	case e.ends(s, err):
		return err
	case s == nil:
		e.options.Problem(err)
	default:
		s.Problem(err)
	}
	return nil
}

// Files calls yield with each file that is attached to.
func (e *Engine) Files(yield func(*target.File)) {
	for f, state := range e.files {
		if len(state.attachments) > 0 {
			yield(f)
		}
	}
}

// ScanTime returns how long looking at the processes took so far. It may be called by any
// goroutine.
func (e *Engine) ScanTime() time.Duration { return time.Duration(e.scanTime.Load()) }

// Skips calls yield with the number of times that a file was left out or postponed, by reason. It may
// be called by any goroutine.
func (e *Engine) Skips(yield func(reason string, n uint64)) { e.options.Skips.Counts(yield) }

// Missed returns the number of processes that had ended before their files could be looked at. It
// may be called by any goroutine.
func (e *Engine) Missed() uint64 { return e.missed.Load() }

// Detach ends the attachments. When it returns, the programs have stored everything that was
// fired before.
func (e *Engine) Detach() error {
	var links Links
	for _, f := range e.files {
		for _, a := range f.attachments {
			links = append(links, a.detach()...)
		}
	}
	return links.Close()
}

// Close releases everything.
func (e *Engine) Close() {
	_ = e.Detach()
	for _, all := range e.loaded {
		for _, l := range all {
			l.Close()
		}
	}
	if e.watcher != nil {
		e.watcher.Close()
	}
	e.poller.close()
}
