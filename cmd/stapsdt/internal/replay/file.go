//go:build linux

package replay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"

	"golang.org/x/sys/unix"
)

// File is a recording.
type File struct {
	Path string
	*recording.Reader
	// Process is the process that writes to the recording. It is nil if only the recording describes the process.
	Process *Process
	file    *os.File // nil for a recording in memory
	ended   int      // counts the calls of Follow that found no writer
	close   func()
	filters []*Filter // filters by the indexes of the probes
	event   *recording.Event
	missing uint64        // lost events before the next selected event
	held    bool          // event was read, but Next has not returned it
	last    time.Duration // time of the last event that was read
	missed  time.Duration // until when events were lost, without a recording
}

// Writer identifies the process that writes to a recording, whichever File it is read by.
type Writer struct {
	PID   uint32
	Start uint64 // in ticks since the boot
}

// Writer returns the process by the head of the recording.
func (f *File) Writer() Writer { return Writer{f.Head().PID, f.Head().Start} }

// NewFile returns a File without a recording, for a process whose events come from another source.
func NewFile(p *Process) *File { return &File{Path: fmt.Sprintf("process %d", p.PID), Process: p} }

// Recorded returns the probes of the recording, or none for a File without one.
func (f *File) Recorded() []*recording.Probe {
	if f.Reader == nil {
		return nil
	}
	return f.Probes()
}

// Passed records that the events until a time were delivered.
func (f *File) Passed(until time.Duration) { f.last = until }

// Missed records that some events until a time were lost, of a File without a recording.
func (f *File) Missed(until time.Duration) { f.missed = until }

// Last returns the time of the last event that was read, of any probe.
func (f *File) Last() time.Duration { return f.last }

// openFile opens a recording and reads its probes.
func openFile(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
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
		return nil, unix.EISDIR
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	reader, err := recording.NewPart(f, info.Size())
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
		if e.Realtime > r.window.until {
			f.missing += e.Missing
			continue
		}
		f.last = e.Monotonic
		if p := f.Process; p != nil {
			e.PID, e.Executable, e.Pod = uint32(p.PID), p.Executable, p.Pod
		}
		f.missing += e.Missing
		if e.Realtime >= r.window.since && f.filter(r, e.Number).Matches(e) {
			e.Missing, f.missing = f.missing, 0
			f.event, f.held = e, true
			return true, nil
		}
	}
}

// Process is a process that writes to a recording.
type Process struct {
	PID int
	// Executable is the path of the process's program, and Comm its name in the kernel.
	Executable, Comm string
	// Pod is the pod of the process, or nil.
	Pod *recording.Pod

	looked time.Duration // when the pod was last looked up, by CLOCK_MONOTONIC
}

// pods finds the pods of this machine.
var pods = sync.OnceValue(func() *cgroup.Pods { return cgroup.NewPods(cgroup.Links) })

// FindPod looks up the pod of a process that has none yet. It does so at most four times a second, by now, because the
// pod of a new container has no name at first.
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

// NewProcess returns a Process with the kernel's data about it.
func NewProcess(pid int) *Process {
	p := &Process{PID: pid}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
		p.Comm = strings.TrimSuffix(string(b), "\n")
	}
	p.Executable, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	p.FindPod(1)
	return p
}

// Follow is called when More has found nothing. It warns of files that have no writer any longer. If the path of such a
// file names another recording, this replaces the file. Follow returns the replaced files.
func (r *Reader) Follow(to *console.Console) (replaced []*File) {
	for i, f := range r.files {
		if f.ended == 0 && f.written() {
			continue
		}
		switch f.ended++; f.ended {
		case 1: // More must first find the events that were written until now
			continue
		case 2:
			to.Warn("the recording %s of process %d has ended", f.Path, f.Head().PID)
		}
		if next := f.successor(); next != nil {
			to.Warn("%s is another recording now, of process %d", f.Path, next.Head().PID)
			r.reportFile(to, f, "not all events are shown")
			r.gone += f.Lost()
			f.close()
			r.files[i] = next
			r.realtime = r.realtime || next.Head().Boot != r.files[0].Head().Boot
			for n := range next.Probes() {
				next.filter(r, uint32(n))
			}
			r.Begin(to)
			replaced = append(replaced, f)
		}
	}
	return replaced
}

// written reports whether a process may write to the file: its writer has locked it, or has closed all descriptors, as
// daemons do. Trying the lock could obstruct a process that begins to write, so it is tried last.
func (f *File) written() bool {
	if f.Head().Ended {
		return false
	}
	if recordfile.Runs(f.Head()) || unix.Flock(int(f.file.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return true
	}
	_ = unix.Flock(int(f.file.Fd()), unix.LOCK_UN)
	return false
}

// successor opens the recording that now has the path of a file. It returns nil if this is still the same file, or is no recording.
func (f *File) successor() *File {
	before, err := f.file.Stat()
	if err != nil {
		return nil
	}
	if now, err := os.Stat(f.Path); err != nil || os.SameFile(before, now) {
		return nil
	}
	next, err := openFile(f.Path)
	if err != nil {
		return nil
	}
	return next
}
