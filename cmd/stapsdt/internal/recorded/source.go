//go:build linux

// Package recorded reads the events of recordings that a command is given in place of processes.
package recorded

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Source reads the events of files, merged by their times.
type Source struct {
	files    []*File
	specs    []target.Spec
	where    string
	realtime bool // whether the files are of different boots, so that only this clock relates them
	active   []*File
	taken    bool // the first of active has to be advanced
}

// File is a recording.
type File struct {
	Path string
	*recording.Reader
	file    *os.File
	filters []*filter // by the numbers of probes
	event   *recording.Event
	last    time.Duration // of the last event that was read
}

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

func (s *Source) open(paths, texts []string) error {
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
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		reader, err := recording.NewReader(f)
		s.files = append(s.files, &File{Path: path, Reader: reader, file: f})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		s.realtime = s.realtime || reader.Head().Boot != s.files[0].Head().Boot
	}
	return s.check()
}

// check reports that no probe is meant that a file has, or that the expression fits none.
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

// Probes returns the probes that are meant, of all files.
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

// Close closes the files.
func (s *Source) Close() {
	for _, f := range s.files {
		f.file.Close()
	}
}

// Files returns the recordings.
func (s *Source) Files() []*File { return s.files }

// Lost returns how many events of all probes the recordings no longer have.
func (s *Source) Lost() (lost uint64) {
	for _, f := range s.files {
		lost += f.Lost()
	}
	return lost
}

// Report warns that what was made of the events is not of all, if the recordings have lost some.
func (s *Source) Report(to *console.Console) {
	if lost := s.Lost(); lost > 0 {
		to.Warn("the recording has lost %d events, the oldest ones: the numbers are lower bounds", lost)
	}
}

// Unevaluated warns about events that were left out because of their expressions.
func Unevaluated(to *console.Console, n uint64) {
	if n > 0 {
		to.Warn("%d events are not included, because an expression divided by zero or shifted by a negative count", n)
	}
}

// More finds events that were written since it was called last, and reports whether there are any.
func (s *Source) More() (bool, error) {
	s.active, s.taken = s.active[:0], false
	for _, f := range s.files {
		more, err := f.More()
		if err == nil && more {
			more, err = f.advance(s)
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", f.Path, err)
		}
		if more {
			s.active = append(s.active, f)
		}
	}
	s.sort()
	return len(s.active) > 0, nil
}

func (s *Source) sort() {
	slices.SortStableFunc(s.active, func(a, b *File) int { return cmp.Compare(a.at(s), b.at(s)) })
}

// at is the place of the file's event in the order of all.
func (f *File) at(s *Source) int64 {
	if s.realtime {
		return f.event.Realtime
	}
	return int64(f.event.Monotonic)
}

// Next returns the next event of those that More has found, and its file, or io.EOF.
func (s *Source) Next() (*recording.Event, *File, error) {
	if s.taken {
		s.taken = false
		f := s.active[0]
		more, err := f.advance(s)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		if !more {
			s.active = s.active[1:]
		} else if len(s.active) > 1 {
			s.sort()
		}
	}
	if len(s.active) == 0 {
		return nil, nil, io.EOF
	}
	s.taken = true
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

// advance moves to the file's next event that is meant, and reports whether there is one.
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
		filter, err := f.filter(s, e.Number)
		if err == nil && filter.matches(e) { // an expression that does not fit the probe is true for none of its events
			f.event = e
			return true, nil
		}
	}
}

// filter says which events of a probe are meant.
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
	fl := &filter{meant: len(s.specs) == 0 || slices.ContainsFunc(s.specs, func(spec target.Spec) bool { return spec.Match(p.Provider, p.Name) })}
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
