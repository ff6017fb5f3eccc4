//go:build linux

package recorded

import (
	"os"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"

	"golang.org/x/sys/unix"
)

// Follow is called when More has found nothing. It says which files nothing writes to any longer: a writer has locked its file. When such a path
// names another recording, this takes its place.
func (s *Source) Follow(to *console.Console) {
	for i, f := range s.files {
		if f.ended == 0 && unix.Flock(int(f.file.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
			continue
		}
		switch f.ended++; f.ended {
		case 1: // what was written until now has to be found first
			_ = unix.Flock(int(f.file.Fd()), unix.LOCK_UN)
			continue
		case 2:
			to.Warn("the recording %s of process %d has ended", f.Path, f.Head().PID)
		}
		if next := f.successor(); next != nil {
			to.Warn("%s is another recording now, of process %d", f.Path, next.Head().PID)
			s.reportFile(to, f, "what is shown is not all")
			s.gone += f.Lost()
			f.close()
			s.files[i] = next
			s.realtime = s.realtime || next.Head().Boot != s.files[0].Head().Boot
			for n := range next.Probes() {
				next.filter(s, uint32(n))
			}
			s.Begin(to)
		}
	}
}

// successor opens the recording that has the path of a file now, or returns nil if this is still the file or no recording.
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
