//go:build linux

// Package recorded reads the events of recordings that a command is given in place of processes.
package recorded

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Source reads the events of recordings, merged by their times. A recording is a file, or memory to which
// a program writes.
type Source struct {
	files    []*File
	gone     uint64 // events that were lost by recordings that were removed
	specs    []target.Spec
	where    string
	live     bool // processes write to the recordings
	realtime bool // the files are not known to be of one boot: only this clock relates them
	active   []*File
	taken    bool // the first of active has to be advanced
}

// File is a recording.
type File struct {
	Path string
	*recording.Reader
	// Process is the one that writes to it, if that is known better than the recording says.
	Process *Process
	close   func()
	filters []*filter // by the numbers of probes
	event   *recording.Event
	held    bool          // event was read, and Next has not returned it
	last    time.Duration // of the last event that was read
}

// Process is a process that writes to a recording.
type Process struct {
	PID int
	// Executable is the path of its program, and Comm its name, as the kernel has it.
	Executable, Comm string
	// Pod is that of the process, or nil.
	Pod *recording.Pod

	looked time.Duration // when the pod was looked for last, by CLOCK_MONOTONIC
}

// pods are those of this machine.
var pods = sync.OnceValue(func() *cgroup.Pods { return cgroup.NewPods(cgroup.Links) })

// FindPod looks for the pod of a process that has none yet, at a time and at most four times a second: that of
// a new container has no name in its first moments.
func (p *Process) FindPod(now time.Duration) {
	const again = 250 * time.Millisecond
	if p.Pod != nil || p.looked != 0 && now-p.looked < again {
		return
	}
	p.looked = now
	all := pods()
	if all.Refresh(); !all.Any() {
		return
	}
	if c := all.OfProcess(p.PID); c.InPod() {
		p.Pod = &recording.Pod{Namespace: c.Namespace, Name: c.Pod, Container: c.Name}
	}
}

// NewProcess returns what the kernel knows of a process.
func NewProcess(pid int) *Process {
	p := &Process{PID: pid}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
		p.Comm = strings.TrimSuffix(string(b), "\n")
	}
	p.Executable, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	p.FindPod(1)
	return p
}

// NewFile returns a File without a recording, for the events of a process that something else delivers.
func NewFile(p *Process) *File { return &File{Path: fmt.Sprintf("process %d", p.PID), Process: p} }

// Passed says that the events until a time were delivered.
func (f *File) Passed(until time.Duration) { f.last = until }

// Last returns the time of the last event that was read, of any probe.
func (f *File) Last() time.Duration { return f.last }

// Open opens recordings for the events of the probes that specs name, all if there are none, and for
// which an expression is true, unless it is empty.
func Open(paths []string, texts []string, where string) (s *Source, err error) {
	opened := &Source{where: where}
	defer func() {
		if err != nil {
			opened.Close()
		}
	}()
	return opened, opened.open(paths, texts)
}

// New returns a source without recordings, which Add adds. It is like Open otherwise.
func New(texts []string, where string) (*Source, error) {
	s := &Source{where: where, live: true}
	return s, s.parse(texts)
}

func (s *Source) parse(texts []string) error {
	for _, text := range texts {
		spec, err := target.ParseSpec(text)
		if err != nil {
			return usage.Errorf("%w", err)
		}
		if spec.File != "" {
			return usage.Errorf("%q has a FILE, but recordings have the probes of their programs only", text)
		}
		s.specs = append(s.specs, spec)
	}
	return nil
}

// Selects reports whether the specs name a probe.
func (s *Source) Selects(provider, probe string) bool {
	return len(s.specs) == 0 || slices.ContainsFunc(s.specs, func(spec target.Spec) bool { return spec.Match(provider, probe) })
}

// Add adds the recording to which a process writes. close is called when it is removed.
func (s *Source) Add(memory io.ReaderAt, process *Process, close func()) (*File, error) {
	reader, err := recording.NewReader(memory)
	if err != nil {
		close()
		return nil, err
	}
	f := &File{Path: fmt.Sprintf("process %d", process.PID), Reader: reader, Process: process, close: close}
	s.files = append(s.files, f)
	return f, nil
}

// Remove removes a recording, of which Next must not have returned an event since More was called.
func (s *Source) Remove(f *File) {
	s.gone += f.Lost()
	s.files = slices.DeleteFunc(s.files, func(other *File) bool { return other == f })
	s.active = slices.DeleteFunc(s.active, func(other *File) bool { return other == f })
	f.close()
}

func (s *Source) open(paths, texts []string) error {
	if err := s.parse(texts); err != nil {
		return err
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		reader, err := recording.NewReader(f)
		s.files = append(s.files, &File{Path: path, Reader: reader, close: func() { f.Close() }})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		first := s.files[0].Head().Boot
		s.realtime = s.realtime || reader.Head().Boot != first || len(s.files) > 1 && first == [16]byte{}
	}
	return s.check()
}

// check returns an error if no file has a selected probe, or if the expression fits none.
func (s *Source) check() error {
	matched := false
	var unfit error
	for _, f := range s.files {
		for i := range f.Probes() {
			switch filter, err := f.filter(s, uint32(i)); {
			case err != nil:
				unfit = cmp.Or(unfit, err)
			case filter.meant:
				return nil
			}
		}
		matched = matched || unfit != nil
	}
	if matched {
		return unfit
	}
	if len(s.specs) == 0 {
		return nil // nothing was fired
	}
	return fmt.Errorf("%w: no recording has them", probes.ErrNothing)
}

// Probes returns the selected probes of all files.
func (s *Source) Probes() (all []*recording.Probe) {
	for _, f := range s.files {
		for i, p := range f.Probes() {
			if filter, err := f.filter(s, uint32(i)); err == nil && filter.meant {
				all = append(all, p)
			}
		}
	}
	return all
}

// Close closes the recordings.
func (s *Source) Close() {
	for _, f := range s.files {
		f.close()
	}
}

// Files returns the recordings.
func (s *Source) Files() []*File { return s.files }

// Lost returns how many events of all probes the recordings no longer have.
func (s *Source) Lost() (lost uint64) {
	lost = s.gone
	for _, f := range s.files {
		lost += f.Lost()
	}
	return lost
}

// Position returns how many events the recordings had until now, whether they were selected or not, and whether more are known than
// MoreUntil allowed.
func (s *Source) Position() (passed uint64, more bool) {
	for _, f := range s.files {
		n, known := f.Position()
		passed, more = passed+n, more || known
	}
	return passed, more
}

// Report warns that what was made of the events is not of all, if the recordings have lost some.
func (s *Source) Report(to *console.Console) {
	lost := s.Lost()
	switch {
	case lost == 0:
	case s.live:
		to.Warn("%d events were lost, because they came faster than they could be read: the numbers are lower bounds", lost)
	default:
		to.Warn("the recording has lost %d events, the oldest ones: the numbers are lower bounds", lost)
	}
}

// ReportJSON is Report, also for programs: it writes an object with the number of lost events if there are any.
func (s *Source) ReportJSON(to *console.Console) {
	if lost := s.Lost(); lost > 0 {
		fmt.Fprintf(to.Out, "{\"lost\":%d}\n", lost)
	}
	s.Report(to)
}

// Unevaluated warns about events that were left out because of their expressions.
func Unevaluated(to *console.Console, n uint64) {
	if n > 0 {
		to.Warn("%d events are not included, because an expression divided by zero or shifted by a negative count", n)
	}
}

// More finds events that were written since it was called last, and reports whether there are any.
func (s *Source) More() (bool, error) {
	more, failed, err := s.MoreUntil(math.MaxInt64)
	if err != nil {
		return false, fmt.Errorf("%s: %w", failed.Path, err)
	}
	return more, nil
}

// MoreUntil is More for events until a time by CLOCK_MONOTONIC. An error is that of one of the recordings.
func (s *Source) MoreUntil(until time.Duration) (found bool, failed *File, err error) {
	s.active, s.taken = s.active[:0], false
	for _, f := range s.files {
		if f.held { // Next has been left: what the file has comes first
			s.active = append(s.active, f)
			continue
		}
		if until != math.MaxInt64 {
			f.last = until
		}
		more, err := f.MoreUntil(until)
		if err == nil && more {
			more, err = f.advance(s)
		}
		if err != nil {
			return false, f, err
		}
		if more {
			s.active = append(s.active, f)
		}
	}
	s.sort()
	return len(s.active) > 0, nil, nil
}

func (s *Source) sort() {
	slices.SortStableFunc(s.active, func(a, b *File) int { return cmp.Compare(a.at(s), b.at(s)) })
}

// settle puts the first file into its place, when it has moved to its next event.
func (s *Source) settle() {
	f, i := s.active[0], 1
	for at := f.at(s); i < len(s.active) && s.active[i].at(s) < at; i++ {
		s.active[i-1] = s.active[i]
	}
	s.active[i-1] = f
}

// at is the place of the file's event in the order of all.
func (f *File) at(s *Source) time.Duration { return s.Clock(f.event) }

// Clock returns the time of an event by the clock that relates those of all recordings: CLOCK_MONOTONIC, unless they are of
// different boots.
func (s *Source) Clock(e *recording.Event) time.Duration {
	if s.realtime {
		return time.Duration(e.Realtime)
	}
	return e.Monotonic
}

// ReportClock warns that the recordings are related by the time of day alone, if they are.
func (s *Source) ReportClock(to *console.Console) {
	if s.realtime {
		to.Warn("the recordings are of different boots, or do not say of which: their events are ordered by the time of day")
	}
}

// Next returns the next event of those that More has found, and its file, or io.EOF. Another error is that of
// the file.
func (s *Source) Next() (*recording.Event, *File, error) {
	if s.taken {
		s.taken = false
		f := s.active[0]
		more, err := f.advance(s)
		if err != nil {
			s.active = s.active[1:]
			return nil, f, fmt.Errorf("%s: %w", f.Path, err)
		}
		if !more {
			s.active = s.active[1:]
		} else {
			s.settle()
		}
	}
	if len(s.active) == 0 {
		return nil, nil, io.EOF
	}
	s.taken, s.active[0].held = true, false
	return s.active[0].event, s.active[0], nil
}

// Each calls f with each event that was written until now, unless ctx is done.
func (s *Source) Each(ctx context.Context, f func(*recording.Event, *File) error) error {
	if _, err := s.More(); err != nil {
		return err
	}
	for n := 0; n%1024 != 0 || ctx.Err() == nil; n++ {
		e, file, err := s.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = f(e, file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// advance moves to the file's next selected event, and reports whether there is one.
func (f *File) advance(s *Source) (bool, error) {
	for {
		e, err := f.Reader.Next()
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		f.last = e.Monotonic
		if p := f.Process; p != nil {
			e.PID, e.Executable, e.Pod = uint32(p.PID), p.Executable, p.Pod
		}
		filter, err := f.filter(s, e.Number)
		if err == nil && filter.matches(e) { // an expression that does not fit the probe is true for none of its events
			f.event, f.held = e, true
			return true, nil
		}
	}
}

// filter selects events of a probe.
type filter struct {
	meant bool
	where *expr.Expr
	event *recording.Event // for which where is evaluated
	get   func(i int) expr.Value
}

// filter returns that of a probe. The error is that of the expression.
func (f *File) filter(s *Source, number uint32) (*filter, error) {
	for len(f.filters) <= int(number) {
		f.filters = append(f.filters, nil)
	}
	if known := f.filters[number]; known != nil {
		return known, nil
	}
	p := f.Probes()[number]
	fl := &filter{meant: s.Selects(p.Provider, p.Name)}
	f.filters[number] = fl
	if !fl.meant || s.where == "" {
		return fl, nil
	}
	where, err := expr.ParseFilter(s.where, Variables(p))
	if err != nil {
		fl.meant = false
		return fl, usage.Errorf("%s:%s: %w", p.Provider, p.Name, err)
	}
	fl.where = where
	fl.get = func(i int) expr.Value { return Variable(fl.event, i) }
	return fl, nil
}

func (f *filter) matches(e *recording.Event) bool {
	if f.where == nil {
		return f.meant
	}
	f.event = e
	match, _ := f.where.Bool(f.get)
	return match
}
