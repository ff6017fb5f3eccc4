//go:build linux

package engine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// world is a machine without a kernel: processes that have mapped files.
type world struct {
	mapped   map[int][]*target.File
	mappings []proc.Mapping // of each file
	images   map[int]string // the paths of images that processes have mapped just now
	dying    map[int]bool   // that end while they are looked at
	gone     []int          // that List returns, and that have ended
	waiting  []int          // that have loaded probes
	went     []int          // that had waited, and have gone on
	late     []int          // of these, those that have not waited long enough
	listErr  error
	listing  time.Duration // how long List takes

	pending  []int        // that have mapped files just now
	foreign  map[int]bool // the processes that Has does not have
	mapping  *os.File     // is readable while there are mappings, or nil
	overflow bool
	ignored  []*target.File
	found    map[*target.File]bool // and not ignored
	most     int                   // of them at the same time
	rechecks int
	asked    int // how often Knows was called

	loadErr   func(sections int) error
	attachErr error
	results   []func(error) // deliver the results of the attempts that stall.ErrLate has ended for now
	perFile   bool          // whether each file has programs of its own
	// everywhere means that nothing can be attached in one process alone.
	everywhere bool
	alike      bool  // the programs of all probes, whose cookies are the lengths of their names
	skipped    error // of Process
	skips      target.Skips

	shaped   int // how often Shape was called
	loaded   []*fakeProgram
	order    []*fakeProgram // in which they were attached
	sites    [][]Site       // of each attempt
	problems []string       // that concern no subscription
}

// fakeProgram is a program that can be attached, and counts how often it is.
type fakeProgram struct {
	sections []*bpf.Section
	attached atomic.Int64 // attachments are closed at the same time
	closed   bool
}

func (p *fakeProgram) Close() error { p.closed = true; return nil }

// fakeLink is an attachment.
type fakeLink struct{ p *fakeProgram }

func (l fakeLink) Close() error { l.p.attached.Add(-1); return nil }

var errUnfit = errors.New("undefined: x")

var errGone = fmt.Errorf("process 1: %w", proc.ErrNoProcess)

// Files

func (w *world) Process(pid int) (uses []target.Use, skipped, err error) {
	files, ok := w.mapped[pid]
	if !ok {
		return nil, nil, errGone
	}
	for _, f := range files {
		if !slices.Contains(w.ignored, f) {
			uses = append(uses, target.Use{File: f, Mappings: w.mappings})
			if w.found == nil {
				w.found = map[*target.File]bool{}
			}
			w.found[f] = true
		}
	}
	w.most = max(w.most, len(w.found))
	return uses, w.skipped, nil
}

func (w *world) Open(string) (*target.File, error) { return nil, errors.ErrUnsupported }
func (w *world) Knows(int, *proc.Mapping) bool     { w.asked++; return false }
func (w *world) Waiting() []int                    { return nil }
func (w *world) Order(pids []int) []int            { return pids }
func (w *world) Recheck()                          { w.rechecks++ }
func (w *world) Reconsider()                       { w.ignored = nil }

func (w *world) Ignore(f *target.File) {
	w.ignored = append(w.ignored, f)
	delete(w.found, f)
}
func (w *world) Drop(*target.File) {}

// Processes

func (w *world) List() (pids []int, err error) {
	time.Sleep(w.listing)
	for pid := range w.mapped {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return append(pids, w.gone...), w.listErr
}

func (w *world) FDs() []int       { return nil }
func (w *world) Ended() bool      { return false }
func (w *world) Has(pid int) bool { return !w.foreign[pid] }
func (w *world) Left() bool       { return len(w.mapped) > 0 }

func (w *world) Loaded() (pids []int, proceed func() (late []int)) {
	pids, w.waiting = w.waiting, nil
	return pids, func() []int {
		w.went = append(w.went, pids...)
		return w.late
	}
}

func (w *world) Alive(pid int) bool {
	_, ok := w.mapped[pid]
	return ok && !w.dying[pid]
}

// Kernel

func (w *world) Shape(p *bpf.Probe, sections []*bpf.Section) (string, uint64) {
	w.shaped++
	if w.alike && len(sections) == 1 {
		return "", uint64(len(p.Name))
	}
	return p.Key(), 0
}

func (w *world) Load(_ *bpf.Probe, _ *target.File, sections []*bpf.Section) (Program, error) {
	if w.loadErr != nil {
		if err := w.loadErr(len(sections)); err != nil {
			return nil, err
		}
	}
	p := &fakeProgram{sections: sections}
	w.loaded = append(w.loaded, p)
	return p, nil
}

func (w *world) Attach(p Program, f *target.File, sites []Site, pid int, late func(Links, error)) (Links, error) {
	if w.attachErr == stall.ErrLate {
		w.results = append(w.results, func(err error) {
			w.attachErr = err
			late(w.Attach(p, f, sites, pid, nil))
		})
	}
	if w.attachErr != nil {
		return nil, w.attachErr
	}
	p.(*fakeProgram).attached.Add(1)
	w.order, w.sites = append(w.order, p.(*fakeProgram)), append(w.sites, sites)
	return Links{fakeLink{p.(*fakeProgram)}}, nil
}

func (w *world) PerProcess() bool        { return !w.everywhere }
func (w *world) PerFile(*bpf.Probe) bool { return w.perFile }

// watcher is the world's Watcher.
type watcher struct{ *world }

func (w watcher) Mapped(see func(int, *proc.Mapping), skip func(int, *proc.Mapping) bool) (pids []int, all bool) {
	for pid, path := range w.images {
		see(pid, &proc.Mapping{File: proc.File{Inode: 1, Path: path}})
	}
	pids = slices.DeleteFunc(w.pending, func(pid int) bool { return skip(pid, nil) })
	all = w.overflow
	w.pending, w.overflow = nil, false
	return pids, all
}

func (w watcher) Pending() bool { return len(w.pending) > 0 || w.overflow }

func (w watcher) FDs() (fds []int) {
	if w.mapping != nil {
		fds = append(fds, int(w.mapping.Fd()))
	}
	return fds
}

func (w watcher) Close() {}

// subscriber asks for probes, and keeps what it is told.
type subscriber struct {
	selector *probes.Selector
	together bool
	err      error           // of Section
	unfit    map[string]bool // probes for which Section fails
	why      error           // the error then
	asked    []string
	seen     []int
	problems []string
}

func subscribe(t *testing.T, specs ...string) *subscriber {
	t.Helper()
	return &subscriber{selector: probes.NewSelector(querytest.Specs(specs...)), why: errUnfit}
}

func (s *subscriber) Problem(err error) { s.problems = append(s.problems, err.Error()) }

func (s *subscriber) processFound(pid int) error {
	s.seen = append(s.seen, pid)
	return nil
}

func (s *subscriber) Section(p *bpf.Probe) (*bpf.Section, error) {
	s.asked = append(s.asked, p.String())
	if s.err != nil {
		return nil, s.err
	}
	if s.unfit[p.String()] {
		return nil, s.why
	}
	return &bpf.Section{}, nil
}

// newFile returns a file with probes.
func newFile(path string, names ...string) *target.File {
	f := &target.File{Path: path}
	for i, name := range names {
		f.Probes = append(f.Probes, sdt.Site{Provider: "app", Name: name, Offset: uint64(i)})
	}
	return f
}

// newEngine returns an engine in a world.
func newEngine(t *testing.T, w *world, o Options) *Engine {
	t.Helper()
	o.Files, o.Kernel, o.Processes, o.Skips, o.Scan = w, w, w, &w.skips, true
	o.Watch = func() (Watcher, error) { return watcher{w}, nil }
	o.Problem = func(err error) { w.problems = append(w.problems, err.Error()) }
	e, err := New(o)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

// add adds a subscriber, which asks for processes.
func (e *Engine) add(s *subscriber) *Subscription {
	return e.Add(s, Selection{Selector: s.selector, Together: s.together, ProcessFound: s.processFound})
}

// scan is Scan for those who do not care what was found.
func (e *Engine) scan() error {
	_, err := e.Scan()
	return err
}

// attached returns how many sections are attached.
func (w *world) attached() (n int) {
	for _, p := range w.loaded {
		n += int(p.attached.Load()) * len(p.sections)
	}
	return n
}
