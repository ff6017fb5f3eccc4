//go:build linux

package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Files finds the files of processes, and remembers them. *target.Finder implements it.
type Files interface {
	Process(pid int) (uses []target.Use, skipped error, err error)
	Open(path string) (*target.File, error)
	Knows(pid int, m *proc.Mapping) bool
	Waiting() []int
	// Order returns pids with the processes of users who have exceeded their share last.
	Order(pids []int) []int
	// Recheck makes it compare all known files again, and Reconsider makes it find ignored files
	// again.
	Recheck()
	Reconsider()
	// Ignore closes a file without selected probes, which is then not found for a while. Drop
	// closes a file that can be found again.
	Ignore(f *target.File)
	Drop(f *target.File)
}

// Processes are the processes that are searched for files.
type Processes interface {
	// List returns their PIDs.
	List() ([]int, error)
	// Has reports whether a process is one of them.
	Has(pid int) bool
	// Alive reports whether a process exists, even if Has reports false for it.
	Alive(pid int) bool
	// FDs returns descriptors that become readable when a process ends, if the kernel reports that,
	// or when Loaded has something to return. Ended reports whether a process has ended.
	FDs() []int
	Ended() bool
	// Loaded returns processes that have loaded probes, and wait for the engine to attach to them.
	// proceed lets these processes continue, and returns those that have not waited. Any process
	// may be among them.
	Loaded() (pids []int, proceed func() (late []int))
	// Left removes the processes that have ended, and reports whether events can still come.
	Left() bool
}

// Kernel loads programs, and attaches them to sites.
type Kernel interface {
	// Load loads the program of a probe of a file. It serves other files too, unless PerFile
	// reports true.
	Load(p *bpf.Probe, f *target.File, sections []*bpf.Section) (Program, error)
	// PerFile reports whether each file has programs of its own for a probe, so that WithdrawFrom
	// can detach it from one file.
	PerFile(p *bpf.Probe) bool
	// Shape returns a string that is equal for probes of which one program can serve all, and the
	// cookie by which the program knows the sites of this one. A probe that can be withdrawn alone
	// shares no program.
	Shape(p *bpf.Probe, sections []*bpf.Section) (shape string, cookie uint64)
	// Attach attaches a program to sites of a file, in one process, or in all if pid is 0. If the
	// error is stall.ErrLate, any goroutine calls late when there is a result.
	Attach(
		p Program, f *target.File, sites []Site, pid int, late func(Links, error),
	) (Links, error)
	// PerProcess reports whether it can attach to sites in one process.
	PerProcess() bool
}

// Site is a site, and the cookie with which a program is attached to it.
type Site struct {
	sdt.Site
	Cookie uint64
}

// Program is a loaded program.
type Program interface{ Close() error }

// Watcher reports which processes map files. *proc.Watcher implements it.
type Watcher interface {
	Mapped(see func(int, *proc.Mapping), skip func(int, *proc.Mapping) bool) (pids []int, all bool)
	// Pending reports whether Mapped has something to return.
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
	// Skips holds the counters of the files that were left out or postponed.
	Skips *target.Skips
	// Broken receives a value when others begin to write to a file. It may be nil.
	Broken <-chan struct{}
	// Named lists the processes that must not end before Run. All others may end at any time.
	Named []int
	// Scan makes the engine search the processes for files, in addition to the files that specs
	// name.
	Scan bool
	// Watch starts watching processes. If that is not permitted, the engine polls them.
	Watch func() (Watcher, error)
	// Found receives the processes that a look has found to use files with selected probes, before
	// anything is attached for them. all means that the look was at all processes. It may be nil.
	Found func(found *probes.Found, all bool)
	// Patient makes the looks at new mappings rarer while only other processes map files. New
	// files of the selected processes may then be noticed later, but a busy machine does not keep
	// the engine busy.
	Patient bool
	// Used receives a process that has mapped a file that is attached to, perhaps more than once.
	// It may be nil.
	Used func(pid int)
	// Follows reports whether to look at each process that maps a file, although the file is known.
	// It may be nil.
	Follows func(m *proc.Mapping) bool
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

	poller  *poller
	watcher Watcher // nil if watching is not permitted
	// whether Run was called; from then on, a bad probe is a problem, not an error
	running       bool
	subscriptions []*Subscription
	added         uint64 // the number of subscriptions added so far, including removed ones
	numbered      uint64 // the number of files so far
	files         map[*target.File]*file
	loaded        map[string][]*sharedProgram // keyed by the shape and the subscriptions
	refused       map[string]bool             // by probe and subscriptions: the kernel rejects it
	scanned       time.Time                   // start of the last successful scan
	pace          pace                        // limits scans of all processes
	// whether the kernel has dropped reports of mappings since that scan
	lost    bool
	foreign int         // looks in succession that found mappings of other processes only
	broken  atomic.Bool // whether others have begun to write to a file
	short   bool        // whether a shortage kept the last scan from reading processes
	putOff  bool        // whether the last scan put off a file
	leftOut []error     // why files are left out, found before Run
	// whether anything has failed for lack of descriptors since the last purge
	crowded bool

	mu       sync.Mutex // guards late and detached
	late     []*result  // that have come since the engine last adopted some
	detached bool       // a result that comes now is not kept

	processorTime func() time.Duration // returns the processor time that this process has used

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
		files: map[*target.File]*file{}, loaded: map[string][]*sharedProgram{},
		refused: map[string]bool{}, processorTime: processorTime,
	}, nil
}

// Add adds a subscriber. Nothing is attached for it before the next scan.
func (e *Engine) Add(s Subscriber, selection Selection) *Subscription {
	e.added++
	added := &Subscription{
		Subscriber: s, Selection: selection, id: e.added, sections: map[string]*bpf.Section{},
	}
	e.subscriptions = append(e.subscriptions, added)
	e.finder.Reconsider()
	e.pace.want(time.Now())
	return added
}

// Remove ends subscriptions. An attachment that another subscription shares remains until that
// subscription ends too.
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
			ended := !slices.ContainsFunc(
				a.subscriptions, func(s *Subscription) bool { return !s.removed },
			)
			if ended {
				links = append(links, a.detach()...)
			}
			return ended
		})
	}
	_ = links.Close()
	clear(e.refused)
	for key, all := range e.loaded {
		ended := 0
		for _, l := range all {
			if !slices.ContainsFunc(
				l.subscriptions, func(s *Subscription) bool { return !s.removed },
			) {
				l.Close()
				ended++
			}
		}
		if ended == len(all) { // no other subscription uses them
			delete(e.loaded, key)
		}
	}
}

// ends reports whether an error ends the engine. The error concerns s, or all subscriptions if s is
// nil. No other code makes this decision. A daemon ends only if the error keeps it from starting. A
// command ends if something is wrong before it has attached to anything, if attaching is refused,
// or if the processes cannot be listed. After the start, a shortage ends neither.
func (e *Engine) ends(s *Subscription, err error) bool {
	var refused *rights.Error
	if e.running && (e.options.Daemon || stall.Passes(err)) {
		return false
	}
	return s == nil || errors.As(err, &refused) || !e.options.Daemon && !e.running
}

// fatal returns err if it ends the engine. Otherwise it reports err as a problem.
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

// ScanTime returns the time that scans of the processes have taken so far. It may be called by any
// goroutine.
func (e *Engine) ScanTime() time.Duration { return time.Duration(e.scanTime.Load()) }

// Skips calls yield with the number of times that a file was left out or postponed, by reason. It
// may be called by any goroutine.
func (e *Engine) Skips(yield func(reason string, n uint64)) { e.options.Skips.Counts(yield) }

// Missed returns the number of processes that had ended before their files could be looked at. It
// may be called by any goroutine.
func (e *Engine) Missed() uint64 { return e.missed.Load() }

// Detach ends the attachments. When it returns, the programs have stored all events that fired
// before.
func (e *Engine) Detach() error {
	e.mu.Lock()
	e.detached = true
	e.mu.Unlock()
	_ = e.adopt()
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
