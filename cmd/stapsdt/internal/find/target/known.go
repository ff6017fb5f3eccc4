//go:build linux

package target

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
)

// entry is the record of a file that a finder has looked at.
type entry struct {
	file *File // nil if it has no probes that matter
	// stamp distinguishes the file from later ones with the same inode. It is not compared before until.
	stamp stamp
	until time.Time
	skip  bool   // the file must not be looked at before until
	owner *owner // the user to whom this entry is charged, or nil
}

// Knows reports whether the finder has already looked at a file that a process has just mapped, so that
// it knows the file's probes, or knows that there are none.
func (f *Finder) Knows(pid int, m *proc.Mapping) bool {
	if e := f.known[m.File]; e != nil && !e.skip {
		e.until = time.Time{} // the mapping may have another file by now
	}
	return f.lookup(pid, m) != nil
}

// lookup returns the entry of a file that a process has mapped, or nil if the file must be looked at.
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
	stat, err := statPath(o.stallKey(m.Device), mapFile(pid, m))
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

// remember notes that a file has no probes that matter. If its owner has too many such files, the
// file is not remembered, and is looked at again.
func (f *Finder) remember(key proc.File, s stamp, o *owner) {
	now := time.Now()
	if now.Sub(f.purged) > entryTTL {
		f.purge(func(e *entry) bool { return now.Sub(e.until) > entryTTL })
		f.purged = now
	}
	f.remove(key)
	if o != nil {
		if o.ignored > maxIgnored {
			return
		}
		o.ignored += entrySize + len(key.Path)
	}
	until := now.Add(entryTTL)
	if age := now.Sub(time.Unix(s.ctime.Unix())); age >= 0 && age < timestampStep {
		s, until = stamp{}, now
	}
	f.known[key] = &entry{stamp: s, until: until, owner: o}
}

// entrySize is the approximate size of an entry in bytes, apart from its path.
const entrySize = 256

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
	if e := f.known[key]; e != nil && e.owner != nil {
		e.owner.ignored -= entrySize + len(key.Path)
	}
	delete(f.known, key)
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
	maps.DeleteFunc(f.known, func(_ proc.File, e *entry) bool { return e.file == file })
	if f.byID[file.ID] == file {
		delete(f.byID, file.ID)
	}
	file.owner.close(file)
	file.Close()
}
