//go:build linux

package target

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
)

// entry is the record of a file that a finder has looked at.
type entry struct {
	file *File // nil if it has no probes that matter
	// stamp distinguishes the file from later ones with the same inode. It is not compared before
	// until.
	stamp stamp
	until time.Time
	skip  bool   // the file must not be looked at before until
	owner *owner // the user to whom this entry is charged, or nil
}

const (
	entryTTL = 30 * time.Second
	// timestampStep is the time after a change within which another change may leave the timestamps
	// of a file unchanged.
	timestampStep = time.Second
)

// entrySize returns the approximate size in bytes of an entry for a path.
func entrySize(path string) int64 { return 256 + int64(len(path)) }

// Knows reports whether the finder has already looked at a file that a process has just mapped,
// so that it knows the file's probes, or knows that there are none.
func (f *Finder) Knows(pid int, m *proc.Mapping) bool {
	if e := f.known[m.File]; e != nil && !e.skip {
		e.until = time.Time{} // the mapping may have another file by now
	}
	return f.lookup(pid, m) != nil
}

// lookup returns the entry of a file that a process has mapped, or nil if the file must be looked
// at.
func (f *Finder) lookup(pid int, m *proc.Mapping) *entry {
	e, now := f.known[m.File], time.Now()
	switch {
	case e == nil || e.file != nil && (e.file.Changed() || e.file.Copied()):
		return nil
	case e.file != nil || now.Before(e.until):
	case e.skip || !f.same(e, pid, m):
		return nil
	default:
		e.until = now.Add(entryTTL)
	}
	return e
}

// same reports whether a mapping has the file of an entry.
func (f *Finder) same(e *entry, pid int, m *proc.Mapping) bool {
	o := e.owner
	defer func(start time.Time) { o.charge(start) }(time.Now())
	stat, err := statPath(o.stallKey(m.Device), m.Link(pid))
	if errors.Is(err, fs.ErrPermission) {
		o = f.owners.of(pid) // the path leads through the mounts of this owner
		stat, err = statPath(o.stallKey(m.Device), fmt.Sprintf("/proc/%d/root%s", proc.Task(pid), m.Path))
	}
	return err == nil && newStamp(&stat) == e.stamp
}

// Recheck makes the finder compare all files again, after it may have missed changes.
func (f *Finder) Recheck() {
	for _, e := range f.known {
		if !e.skip {
			e.until = time.Time{}
		}
	}
}

// remember notes that a file has no probes that matter.
func (f *Finder) remember(key proc.File, s stamp, o *owner) {
	now := time.Now()
	until := now.Add(entryTTL)
	if age := now.Sub(time.Unix(s.ctime.Unix())); age >= 0 && age < timestampStep {
		s, until = stamp{}, now
	}
	f.enter(key, &entry{stamp: s, until: until, owner: o})
}

// enter adds an entry, or replaces one. If the owner's budget has no room for it, the file is
// looked at again instead.
func (f *Finder) enter(key proc.File, e *entry) {
	f.remove(key)
	if size := entrySize(key.Path); e.owner.has(size) {
		e.owner.add(size)
		f.known[key] = e
	}
}

// expire removes entries that were not compared again for a while.
func (f *Finder) expire(now time.Time) {
	if now.Sub(f.purged) > entryTTL {
		f.purge(func(e *entry) bool { return now.Sub(e.until) > entryTTL })
		clear(f.fuse)
		f.purged = now
	}
}

// purge removes selected entries of files without probes that matter.
func (f *Finder) purge(which func(*entry) bool) {
	for key, e := range f.known {
		if e.file == nil && which(e) {
			f.remove(key)
		}
	}
}

// remove removes the entry of a file.
func (f *Finder) remove(key proc.File) {
	if e := f.known[key]; e != nil {
		e.owner.add(-entrySize(key.Path))
		delete(f.known, key)
	}
}

// Ignore closes a file whose probes do not matter. For a while, it is not found again.
func (f *Finder) Ignore(file *File) {
	defer file.Charge(time.Now())
	for key, e := range f.known {
		if e.file == file {
			f.remember(key, file.stamp, file.owner)
		}
	}
	f.Drop(file)
}

// Reconsider lets ignored files be found again.
func (f *Finder) Reconsider() {
	f.purge(func(*entry) bool { return true })
}

// Drop closes a file. The file is found again if a process has mapped it.
func (f *Finder) Drop(file *File) {
	for key, e := range f.known {
		if e.file == file {
			f.remove(key)
		}
	}
	if f.byID[file.ID] == file {
		delete(f.byID, file.ID)
	}
	file.owner.close(file)
	file.Close()
}
