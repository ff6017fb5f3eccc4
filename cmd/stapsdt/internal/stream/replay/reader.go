// Package replay reads the events of recordings that a command is given in place of processes.
package replay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Reader merges the events of recordings by their times. A recording is a file, or memory to which
// a program writes.
type Reader struct {
	// Faults counts the events that were left out because the condition could not be evaluated.
	Faults uint64
	// Taker, if it is not nil, returns the function that takes the events of a probe, in any order.
	Taker func(*recording.Probe) func(*recording.Event)
	// Between, if it is not nil, is called now and then while the Taker's functions take events.
	// Its error ends Each, which returns it.
	Between func() error
	// Pairing, if it is not nil, completes ends. It is set before the first recording is added.
	Pairing Pairing

	files    []*File
	gone     uint64 // events that removed recordings had lost
	specs    []spec.Spec
	where    string
	fits     func(*recording.Probe) error // or nil
	window   window
	unfit    query.Unfit
	selected int  // number of selected probes, including unfit ones
	live     bool // processes write to the recordings
	realtime bool // the files may be of different boots: only this clock relates them
	active   []*File
	taken    bool // the first file of active must be advanced

	paired map[*recording.Probe]*Filter // see Paired
}

// Open opens recordings. The reader delivers the events of the probes that the specs name, or of
// all probes if there are no specs. If where is not empty, it must be true for the event. Probes
// that where or fits refuses are left out; it is an error if all are. fits may be nil.
func Open(
	from From, specs []spec.Choice, where string, fits func(*recording.Probe) error,
) (*Reader, error) {
	r, err := New(specs, where, fits)
	if err != nil {
		return nil, err
	}
	return r, r.Open(from)
}

// Open opens recordings, for a reader without any. It closes the reader if it returns an error.
func (r *Reader) Open(from From) error {
	r.live = false
	err := r.open(from)
	if err != nil {
		r.Close()
	}
	return err
}

// New returns a reader without recordings; Add adds them. Its parameters are as for Open.
func New(specs []spec.Choice, where string, fits func(*recording.Probe) error) (*Reader, error) {
	r := &Reader{specs: spec.All(specs), where: where, fits: fits, window: always, live: true}
	for _, one := range r.specs {
		if one.File != "" {
			return nil, query.Usagef("%q has a FILE, but recordings have the probes of their programs only", one)
		}
	}
	return r, nil
}

// Selects reports whether the specs name a probe.
func (r *Reader) Selects(provider, probe string) bool {
	return len(r.specs) == 0 ||
		slices.ContainsFunc(
			r.specs, func(spec spec.Spec) bool { return spec.Match(provider, probe) },
		)
}

// HasSelected reports whether any recording so far has had a probe that the specs name.
func (r *Reader) HasSelected() bool { return r.selected > 0 }

// Add adds the recording to which a process writes. close is called when it is removed.
func (r *Reader) Add(memory io.ReaderAt, process *Process, close func()) (*File, error) {
	reader, err := recording.NewLive(memory)
	if err != nil {
		close()
		return nil, err
	}
	f := &File{Path: fmt.Sprintf("process %d", process.PID), Reader: reader, Process: process, close: close}
	reader.SetProcess(&recording.Process{
		PID: uint32(process.PID), Executable: process.Executable, Pod: process.Pod,
	})
	r.add(f)
	return f, nil
}

func (r *Reader) add(f *File) {
	r.files = append(r.files, f)
	for i := range f.Probes() {
		f.filter(r, uint32(i)) // one warning lists all probes that are left out
	}
}

// Remove removes a recording. Next must not have returned an event of it since the last call of
// More.
func (r *Reader) Remove(f *File) {
	r.gone += f.Lost()
	r.files = slices.DeleteFunc(r.files, func(other *File) bool { return other == f })
	r.active = slices.DeleteFunc(r.active, func(other *File) bool { return other == f })
	f.close()
	r.unpair(f)
}

func (r *Reader) open(from From) (err error) {
	for _, path := range from.Paths {
		f, err := openFile(path)
		if err != nil {
			return err
		}
		r.files = append(r.files, f)
		first := r.files[0].Head().Boot
		r.realtime = r.realtime || f.Head().Boot != first || len(r.files) > 1 && first == [16]byte{}
	}
	if r.window, err = from.window(r.files); err != nil {
		return err
	}
	if r.window != always && r.Pairing == nil { // it takes the starts before the window too
		for _, f := range r.files {
			f.Within(r.window.since, r.window.until)
		}
	}
	return r.check()
}

// check returns an error if no file has a selected probe, or if the expressions fit none of the
// probes.
func (r *Reader) check() error {
	for _, f := range r.files {
		for i := range f.Probes() {
			f.filter(r, uint32(i))
		}
	}
	all := r.Known()
	switch {
	case r.selected > r.unfit.Probes:
		return nil
	case r.selected > 0:
		return query.Usagef("%w", r.unfit.Err())
	case len(r.specs) == 0 && len(all) == 0: // no probe has fired
		return nil
	}
	specs := spec.Join(r.specs, " or ")
	return fmt.Errorf("%w: no recording has %s%s", query.ErrNothing, specs, r.Nearest(all))
}

// Nearest returns a suggestion to append to the error if none of the probes is selected: a similar
// name, or "".
func (r *Reader) Nearest(all []*recording.Probe) string {
	return query.Nearest(r.specs, Names(all))
}

// Names returns the providers and names of probes.
func Names(all []*recording.Probe) iter.Seq2[string, string] {
	return func(yield func(provider, probe string) bool) {
		for _, p := range all {
			if !yield(p.Provider, p.Name) {
				return
			}
		}
	}
}

// Known returns the probes of all files, selected or not.
func (r *Reader) Known() (all []*recording.Probe) {
	for _, f := range r.files {
		all = append(all, f.Probes()...)
	}
	return all
}

// Probes returns the selected probes of all files, completed if a Pairing does that.
func (r *Reader) Probes() (all []*recording.Probe) {
	for _, f := range r.files {
		for i := range f.Probes() {
			if filter := f.filter(r, uint32(i)); filter.Selected {
				all = append(all, filter.Probe)
			}
		}
	}
	return all
}

// Close closes the recordings.
func (r *Reader) Close() {
	for _, f := range r.files {
		f.close()
	}
}

// Files returns the recordings.
func (r *Reader) Files() []*File { return r.files }

// Lost returns the number of events of all probes that the recordings no longer have.
func (r *Reader) Lost() (lost uint64) {
	lost = r.gone
	for _, f := range r.files {
		lost += f.Lost()
	}
	return lost
}

// Position returns the number of events in the recordings until now, selected or not, and reports
// whether later events than MoreUntil allowed are known.
func (r *Reader) Position() (passed uint64, more bool) {
	for _, f := range r.files {
		n, known := f.Position()
		passed, more = passed+n, more || known
	}
	return passed, more
}

// More finds the events that were written since the last call, and reports whether there are any.
func (r *Reader) More() (bool, error) {
	more, failed, err := r.MoreUntil(math.MaxInt64, true)
	if err != nil {
		return false, fmt.Errorf("%s: %w", failed.Path, err)
	}
	return more, nil
}

// MoreUntil is More for events until a time of CLOCK_MONOTONIC. If it is not thorough, it may leave
// events of recordings that were silent to the next calls. If err is not nil, failed is the
// recording that caused it.
func (r *Reader) MoreUntil(until time.Duration, thorough bool) (
	found bool, failed *File, err error,
) {
	r.active, r.taken = r.active[:0], false
	for _, f := range r.files {
		if f.held { // Next was not called to the end: the events that the file still has come first
			r.active = append(r.active, f)
			continue
		}
		until := min(until, f.until())
		if until != math.MaxInt64 {
			f.last = until
		}
		more, err := f.more(until, thorough)
		if err != nil {
			return false, f, err
		}
		if f.choose(r); more {
			r.active = append(r.active, f)
		}
	}
	if !r.IsUnordered() {
		failed, err = r.begin()
	}
	return len(r.active) > 0, failed, err
}

// begin moves to the first selected event of each active file, unless it was read before.
func (r *Reader) begin() (failed *File, err error) {
	r.active = slices.DeleteFunc(r.active, func(f *File) bool {
		if f.held || err != nil {
			return false
		}
		var more bool
		if more, err = f.advance(r); err != nil {
			failed = f
		}
		return !more && err == nil
	})
	if err == nil {
		r.sort()
	}
	return failed, err
}

func (r *Reader) sort() {
	slices.SortStableFunc(r.active, func(a, b *File) int { return cmp.Compare(a.at(r), b.at(r)) })
}

// settle moves the first file to its place after it has advanced to its next event.
func (r *Reader) settle() {
	f, i := r.active[0], 1
	for at := f.at(r); i < len(r.active) && r.active[i].at(r) < at; i++ {
		r.active[i-1] = r.active[i]
	}
	r.active[i-1] = f
}

// Clock returns the time of an event by the clock that relates all recordings: CLOCK_MONOTONIC,
// unless they are of different boots.
func (r *Reader) Clock(e *recording.Event) time.Duration {
	if r.realtime {
		return time.Duration(e.Realtime)
	}
	return e.Monotonic
}

// Next returns the next event that More has found, and its file, or io.EOF. Another error comes
// from the file that is returned.
func (r *Reader) Next() (*recording.Event, *File, error) {
	if r.taken {
		r.taken = false
		f := r.active[0]
		more, err := f.advance(r)
		if err != nil {
			r.active = r.active[1:]
			return nil, f, fmt.Errorf("%s: %w", f.Path, err)
		}
		switch {
		case !more:
			r.active = r.active[1:]
		case len(r.active) > 1:
			r.settle()
		}
	}
	if len(r.active) == 0 {
		return nil, nil, io.EOF
	}
	r.taken, r.active[0].held = true, false
	return r.active[0].event, r.active[0], nil
}

// Each calls visit with each event that More has found, and its file, until visit returns an error
// or ctx is done. If there is a Taker, this takes the events. If a recording causes the error,
// failed is its file, and another call continues with the others.
func (r *Reader) Each(
	ctx context.Context, visit func(*recording.Event, *File) error,
) (failed *File, err error) {
	var between error
	goOn := func() bool {
		if ctx.Err() == nil && r.Between != nil {
			between = r.Between()
		}
		return ctx.Err() == nil && between == nil
	}
	for r.Taker != nil && len(r.active) > 0 && goOn() {
		f := r.active[0]
		r.active = r.active[1:]
		of := func(number uint32) func(*recording.Event) { return f.taker(r, number) }
		if err := f.Reader.Each(of, goOn); err != nil {
			return f, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	if between != nil {
		return nil, between
	}
	for n := 0; n%1024 != 0 || ctx.Err() == nil; n++ {
		e, f, err := r.Next()
		switch {
		case err == io.EOF:
			return nil, nil
		case err != nil:
			return f, err
		}
		if err := visit(e, f); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
