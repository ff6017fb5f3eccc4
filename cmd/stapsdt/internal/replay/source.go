//go:build linux

// Package replay reads the events of recordings that a command is given in place of processes.
package replay

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/spec"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Source reads the events of recordings, merged by their times. A recording is a file, or memory to which
// a program writes.
type Source struct {
	// Faults is how many events were left out because the condition could not be evaluated.
	Faults   uint64
	files    []*File
	gone     uint64 // events that were lost by recordings that were removed
	specs    []spec.Spec
	where    string
	fits     func(*recording.Probe) error // or nil
	window   window
	unfit    probes.Unfit
	selected int  // probes, with those that are unfit
	live     bool // processes write to the recordings
	realtime bool // the files are not known to be of one boot: only this clock relates them
	active   []*File
	taken    bool // the first of active has to be advanced
}

// Open opens recordings for the events of the probes that specs name, all if there are none, and for
// which an expression is true, unless it is empty. Probes that the expression or fits, unless it is nil, refuses are left out. It is an error if
// all are.
func Open(from From, texts []string, where string, fits func(*recording.Probe) error) (s *Source, err error) {
	opened := &Source{where: where, fits: fits, window: always}
	defer func() {
		if err != nil {
			opened.Close()
		}
	}()
	return opened, opened.open(from, texts)
}

// New returns a source without recordings, which Add adds. It is like Open otherwise.
func New(texts []string, where string, fits func(*recording.Probe) error) (*Source, error) {
	s := &Source{where: where, fits: fits, window: always, live: true}
	return s, s.parse(texts)
}

func (s *Source) parse(texts []string) error {
	for _, text := range texts {
		spec, err := spec.Parse(text)
		if err != nil {
			return console.Usagef("%w", err)
		}
		if spec.File != "" {
			return console.Usagef("%q has a FILE, but recordings have the probes of their programs only", text)
		}
		s.specs = append(s.specs, spec)
	}
	return nil
}

// Selects reports whether the specs name a probe.
func (s *Source) Selects(provider, probe string) bool {
	return len(s.specs) == 0 || slices.ContainsFunc(s.specs, func(spec spec.Spec) bool { return spec.Match(provider, probe) })
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
	for i := range f.Probes() {
		f.filter(s, uint32(i)) // so that one line says which are left out
	}
	return f, nil
}

// Remove removes a recording, of which Next must not have returned an event since More was called.
func (s *Source) Remove(f *File) {
	s.gone += f.Lost()
	s.files = slices.DeleteFunc(s.files, func(other *File) bool { return other == f })
	s.active = slices.DeleteFunc(s.active, func(other *File) bool { return other == f })
	f.close()
}

func (s *Source) open(from From, texts []string) (err error) {
	if err := s.parse(texts); err != nil {
		return err
	}
	if s.window, err = from.window(); err != nil {
		return err
	}
	for _, path := range from.Paths {
		f, err := openFile(path)
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
		first := s.files[0].Head().Boot
		s.realtime = s.realtime || f.Head().Boot != first || len(s.files) > 1 && first == [16]byte{}
	}
	return s.check()
}

// check returns an error if no file has a selected probe, or if the expressions fit none.
func (s *Source) check() error {
	events := false // there is a probe
	for _, f := range s.files {
		for i := range f.Probes() {
			f.filter(s, uint32(i))
			events = true
		}
	}
	switch {
	case s.selected > s.unfit.Probes:
		return nil
	case s.selected > 0:
		return console.Usagef("%w", s.unfit.Err())
	case len(s.specs) == 0 && !events: // nothing was fired
		return nil
	}
	return fmt.Errorf("%w: no recording has %s%s", probes.ErrNothing, s.names(), s.Nearest(s.every))
}

// names are the specs, for a message.
func (s *Source) names() string {
	var all []string
	for _, spec := range s.specs {
		all = append(all, spec.String())
	}
	return strings.Join(all, " or ")
}

// Nearest returns the end of a message that says that none of the names is selected.
func (s *Source) Nearest(names iter.Seq2[string, string]) string {
	return probes.Nearest(s.specs, names)
}

// every calls yield with each probe, selected or not.
func (s *Source) every(yield func(provider, probe string) bool) {
	for _, f := range s.files {
		for _, p := range f.Probes() {
			if !yield(p.Provider, p.Name) {
				return
			}
		}
	}
}

// Probes returns the selected probes of all files.
func (s *Source) Probes() (all []*recording.Probe) {
	for _, f := range s.files {
		for i, p := range f.Probes() {
			if f.filter(s, uint32(i)).Selected {
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

// Clock returns the time of an event by the clock that relates those of all recordings: CLOCK_MONOTONIC, unless they are of
// different boots.
func (s *Source) Clock(e *recording.Event) time.Duration {
	if s.realtime {
		return time.Duration(e.Realtime)
	}
	return e.Monotonic
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
