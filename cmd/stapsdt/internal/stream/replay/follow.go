package replay

import (
	"os"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// Follow is called when More has found nothing. It warns of files that no longer have a writer. If
// the path of such a file names another recording, this replaces the file. Follow returns the
// replaced files.
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
			to.Warn("%s was replaced by a recording of process %d", f.Path, next.Head().PID)
			r.reportFile(to, f, "not all events are shown")
			r.gone += f.Lost()
			f.close()
			r.unpair(f)
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

// written reports whether a process may write to the file.
func (f *File) written() bool { return !f.Head().Ended && written(f.file, f.Head()) }

// Alive reports whether a process may still write to the recording. On systems other than Linux, it
// is not known whether the process lives.
func (f *File) Alive() (alive, known bool) {
	return !f.Head().Ended && (!knowsWriters || f.written()), knowsWriters || f.Head().Ended
}

// Reach records that all events until a time of CLOCK_MONOTONIC were read, of recordings that
// are still written: what is open in them has been open until then. now and at are the same
// moment by both clocks.
func (r *Reader) Reach(now time.Duration, at time.Time) {
	if r.window.until != always.until {
		return
	}
	for _, f := range r.files {
		begin := f.Head().Reading
		ahead := (at.UnixNano() - int64(now)) - (begin.Realtime - begin.Monotonic)
		if max(ahead, -ahead) < int64(otherClock) && f.written() {
			f.last = max(f.last, now)
		}
	}
}

// otherClock is the difference of the two clocks from which on a process has another
// CLOCK_MONOTONIC, in a time namespace. A smaller one comes from setting the time of day.
const otherClock = time.Hour

// replaced reports whether the path of a file names another file now.
func replaced(f *os.File) bool {
	own, err := f.Stat()
	now, nowErr := os.Stat(f.Name())
	return err == nil && nowErr == nil && !os.SameFile(own, now)
}

// successor opens the recording that now has the path of a file. It returns nil if this is still
// the same file, or not a recording.
func (f *File) successor() *File {
	if !replaced(f.file) {
		return nil
	}
	next, err := openFile(f.Path)
	if err != nil {
		return nil
	}
	return next
}
