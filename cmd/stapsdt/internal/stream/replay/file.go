package replay

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// File is a recording.
type File struct {
	Path string
	*recording.Reader
	// Process is the process that writes to the recording. It is nil if only the recording
	// describes the process.
	Process *Process
	file    *os.File // nil for a recording in memory
	ended   int      // counts the calls of Follow that found no writer
	close   func()
	filters []*Filter // filters by the indexes of the probes
	event   *recording.Event
	missing uint64        // lost events before the next selected event
	held    bool          // event was read, but Next has not returned it
	last    time.Duration // time of the last event that was read
	missed  time.Duration // the time until which events were lost, without a recording
	limit   time.Duration // as Limit has set it, or 0
	past    past
}

// Writer identifies the process that writes to a recording, independently of the File
// that reads it.
type Writer struct {
	PID   uint32
	Start uint64 // in ticks since the boot
}

// Writer returns the process by the head of the recording.
func (f *File) Writer() Writer { return Writer{f.Head().PID, f.Head().Start} }

// NewFile returns a File without a recording, for a process whose events come from another source.
func NewFile(p *Process) *File { return &File{Path: fmt.Sprintf("process %d", p.PID), Process: p} }

// Recorded returns the probes of the recordings whose events had this File: its own, if it has one,
// with the completed ones of a Pairing, and that of the past.
func (f *File) Recorded() []*recording.Probe {
	if f.Reader == nil {
		return f.past.probes
	}
	all := f.Probes()
	for i, filter := range f.filters {
		if filter != nil && filter.Probe != f.Probes()[i] {
			all = append(slices.Clip(all), filter.Probe)
		}
	}
	if len(f.past.probes) == 0 {
		return all
	}
	return slices.Concat(all, f.past.probes)
}

// Passed records that the events until a time were delivered.
func (f *File) Passed(until time.Duration) { f.last = until }

// Missed records that some events of a File without a recording were lost until a time.
func (f *File) Missed(until time.Duration) { f.missed = until }

// Last returns the time of the last event that was read, of any probe.
func (f *File) Last() time.Duration { return f.last }

// Still returns a File that keeps what Last and Keeps of f return now, for another goroutine.
func (f *File) Still() *File {
	still := &File{last: f.last, missed: f.missed, past: f.past}
	if f.Reader == nil {
		return still
	}
	switch since, _, known := f.Reader.Since(); {
	case f.Reader.Keeps(0): // all events
		still.missed = math.MinInt64
	case known:
		still.missed = since - 1
	default:
		still.missed = math.MaxInt64
	}
	return still
}

// opened are open files in place of those at their paths.
var opened = map[string]*os.File{}

// SetFile lets the command read an open file in place of the one at its path, once. The path is one
// of another container.
func SetFile(f *os.File) { opened[f.Name()] = f }

// OpenPath opens the file at a path for reading, or returns that of SetFile. It does not wait for a
// pipe.
func OpenPath(path string) (*os.File, error) {
	if f := opened[path]; f != nil {
		delete(opened, path)
		return f, nil
	}
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// openFile opens a recording and reads its probes.
func openFile(path string) (*File, error) {
	f, err := OpenPath(path)
	if err != nil {
		return nil, err
	}
	reader, err := read(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &File{Path: path, Reader: reader, file: f, close: func() { f.Close() }}, nil
}

func read(f *os.File) (*recording.Reader, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, syscall.EISDIR
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	return NewPart(f, info.Size())
}

// NewPart is recording.NewPart, and finds the events. The probes state whether these have threads
// or goroutines.
func NewPart(file io.ReaderAt, size int64) (*recording.Reader, error) {
	reader, err := recording.NewPart(file, size)
	if err != nil {
		return nil, err
	}
	if _, err := reader.More(); err != nil {
		return nil, err
	}
	threads, goroutines := reader.Origins()
	for _, p := range reader.Probes() {
		p.NoThread, p.NoGoroutine = goroutines && !threads, threads && !goroutines
	}
	return reader, nil
}

// more finds the events of the recording until a time.
func (f *File) more(until time.Duration, thorough bool) (bool, error) {
	if f.file != nil {
		return f.More()
	}
	return f.MoreUntil(until, thorough)
}

// at returns the time by which the file's event is ordered among the events of all files.
func (f *File) at(r *Reader) time.Duration { return r.Clock(f.event) }

// advance moves to the file's next selected event, and reports whether there is one.
func (f *File) advance(r *Reader) (bool, error) {
	for {
		e, err := f.Reader.Next()
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if f.takes(r, e) {
			f.event, f.held = e, true
			return true, nil
		}
	}
}

// takes reports whether an event of the file is selected.
func (f *File) takes(r *Reader, e *recording.Event) bool {
	f.missing += e.Missing
	if e.Realtime > r.window.until {
		return false
	}
	f.last = e.Monotonic
	filter := f.filter(r, e.Number)
	if e.Realtime < r.window.since && !filter.paired || !filter.Takes(e) {
		return false
	}
	e.Missing, f.missing = f.missing, 0
	return true
}

// taker returns the function that takes the events of a probe, or nil if none is selected.
func (f *File) taker(r *Reader, number uint32) func(*recording.Event) {
	filter := f.filter(r, number)
	if !filter.Selected || filter.paired {
		return nil
	}
	take := r.Taker(f.Probes()[number])
	if take == nil || filter.where == nil && r.window == always {
		return take
	}
	return func(e *recording.Event) {
		if e.Realtime >= r.window.since && e.Realtime <= r.window.until && filter.Matches(e) {
			take(e)
		}
	}
}
