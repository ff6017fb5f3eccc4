//go:build linux

package target

import "time"

// openWriter is a file that another process has open for writing.
type openWriter struct {
	since time.Time // when this was first found
	pids  []int     // processes that have mapped the file
}

// patience is the delay before attaching to a file that stays open for writing.
const patience = 2 * time.Second

// waits reports whether to wait until a file is closed for writing. The wait is limited, because
// some programs keep a file open for longer.
func (f *Finder) waits(id ID) bool {
	w := f.written[id]
	if w == nil {
		w = &openWriter{since: time.Now()}
		f.written[id] = w
	}
	return time.Since(w.since) < patience
}

// Waiting returns the processes that had mapped a file while it was being written, so that the
// caller looks at them again.
func (f *Finder) Waiting() (pids []int) {
	for id, w := range f.written {
		pids = append(pids, w.pids...)
		w.pids = nil
		if time.Since(w.since) > 2*patience {
			delete(f.written, id)
		}
	}
	return pids
}
