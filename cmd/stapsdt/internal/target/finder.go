//go:build linux

package target

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/shortage"
	"golang.org/x/sys/unix"
)

// Finder finds the files with probes that processes have mapped. It remembers what it found,
// so that looking again is cheap. It is for one goroutine.
type Finder struct {
	known  map[mapped]*entry
	pruned time.Time // when entries that are no longer believed were removed
	byID   map[ID]*File
	leases *lease.Leases // nil if nothing will be attached
	// written has the files that were open for writing when they were looked at.
	written map[ID]*writing
}

// mapped is a file as it appears in /proc/PID/maps. The device and the inode are not always
// those of its ID, for example on btrfs and overlayfs.
type mapped struct {
	device, inode uint64
	path          string
}

// entry is what is known of a file.
type entry struct {
	file *File // nil if it has no probes that matter
	// stamp tells it from files that get its inode when it is deleted, and until is how long it
	// is believed without looking at that.
	stamp stamp
	until time.Time
}

// writing is a file that another process is writing, or could.
type writing struct {
	since time.Time // when it was first found so
	pids  []int     // that have mapped it
}

const (
	believed = 30 * time.Second
	// fresh is how long after a change another one may leave the times of a file as they are.
	fresh = time.Second
	// patience is how long a file that is open for writing is not attached to.
	patience = 2 * time.Second
)

// NewFinder returns a Finder that has found nothing. Nothing is attached to its files.
func NewFinder() *Finder {
	return &Finder{known: map[mapped]*entry{}, byID: map[ID]*File{}, written: map[ID]*writing{}}
}

// NewTracer returns a Finder that has found nothing. While it has a file, others wait to write
// to the file until nothing is attached to it.
func NewTracer() *Finder {
	f := NewFinder()
	f.leases = lease.New()
	return f
}

// Broken has an element when others have begun to write to a file since it was last received
// from. It is nil if nothing will be attached.
func (f *Finder) Broken() <-chan struct{} {
	if f.leases == nil {
		return nil
	}
	return f.leases.Broken
}

// Use is a file with probes that a process has mapped.
type Use struct {
	*File
	// Mappings are those of the file, in the order of their addresses.
	Mappings []Mapping
}

// Process returns the files with probes that a process has mapped. The error is
// ErrNoProcess if it has exited, and a *rights.Error if rights are missing to read the process.
// Files that cannot be opened are skipped: skipped is the reason of the first of them.
func (f *Finder) Process(pid int) (uses []Use, skipped error, err error) {
	mappings, err := Mappings(pid)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil, rights.New(fmt.Sprintf("reading the memory map of process %d", pid), err, rights.Ptrace)
	}
	if err != nil {
		return nil, nil, err
	}
	at := map[*File]int{}
	byKey := map[mapped][]Mapping{}
	var order []mapped
	for _, m := range mappings {
		key := mapped{m.Device, m.Inode, m.Path}
		if byKey[key] == nil {
			order = append(order, key)
		}
		byKey[key] = append(byKey[key], m)
	}
	for _, key := range order {
		all := byKey[key]
		i := slices.IndexFunc(all, func(m Mapping) bool { return m.Executable })
		if i < 0 || all[i].Parked() {
			continue
		}
		file, err := f.file(pid, key, all[i])
		if err != nil && skipped == nil {
			skipped = err
		}
		if file == nil {
			continue
		}
		if j, ok := at[file]; ok {
			uses[j].Mappings = append(uses[j].Mappings, all...)
			continue
		}
		at[file] = len(uses)
		uses = append(uses, Use{file, all})
	}
	return uses, skipped, nil
}

// Knows reports whether a file that a process has mapped was looked at already, so that its
// probes are known, or that it has none.
func (f *Finder) Knows(pid int, m *Mapping) bool {
	e := f.known[mapped{m.Device, m.Inode, m.Path}]
	if e == nil {
		return false
	}
	if e.file != nil {
		return !e.file.Changed()
	}
	if e.same(pid, m) {
		return true
	}
	e.until = time.Time{} // the mapping may be another one by now
	return false
}

// same reports whether a mapping is of the file that the entry is about.
func (e *entry) same(pid int, m *Mapping) bool {
	var stat unix.Stat_t
	err := unix.Stat(mapFile(pid, m), &stat)
	if errors.Is(err, fs.ErrPermission) {
		err = unix.Stat(fmt.Sprintf("/proc/%d/root%s", pid, m.Path), &stat)
	}
	return err == nil && newStamp(&stat) == e.stamp
}

// Doubt looks at files again if they have changed, after changes may have been missed.
func (f *Finder) Doubt() {
	for _, e := range f.known {
		e.until = time.Time{}
	}
}

// file returns nil if the file has no probes, or must not be attached to yet.
func (f *Finder) file(pid int, key mapped, m Mapping) (*File, error) {
	now := time.Now()
	if e := f.known[key]; e != nil {
		switch {
		case e.file != nil && !e.file.Changed():
			return e.file, nil
		case e.file == nil && (now.Before(e.until) || e.same(pid, &m)):
			if e.until.IsZero() {
				e.until = now.Add(believed)
			}
			return nil, nil
		}
	}
	// Only now are the rights needed that opening takes.
	opened, err := openMapped(pid, key, m)
	if err != nil {
		return nil, err
	}
	file, err := f.read(key.path, opened)
	if errors.Is(err, lease.ErrWritten) {
		w := f.written[file.ID]
		w.pids = append(w.pids, pid)
		return nil, nil
	}
	if err != nil {
		f.remember(key, file.stamp)
		return nil, nil
	}
	f.known[key] = &entry{file: file, stamp: file.stamp}
	return file, nil
}

// read returns the File of an open file: the one that there is already, or another one with
// its probes. The file is closed otherwise. The error is lease.ErrWritten if the file must not be
// attached to yet.
func (f *Finder) read(path string, opened *os.File) (file *File, err error) {
	file = &File{Path: path, file: opened}
	defer func() {
		if file.file != opened || err != nil {
			opened.Close()
		}
	}()
	if err = file.identify(); err != nil {
		return file, fmt.Errorf("%s: %w", path, err)
	}
	if same := f.byID[file.ID]; same != nil && !same.Changed() {
		return same, nil
	}
	if err = file.read(); err == nil && f.leases != nil { // most files have no probes
		if err = file.guard(f.leases); err != nil && f.waits(file.ID) {
			return file, err
		}
		defer func() {
			if err != nil {
				file.lease.Release()
			}
		}()
		err = file.read() // what is in the file from now on
	} else if err == nil {
		file.describeAll()
	}
	if err != nil {
		return file, fmt.Errorf("%s: %w", path, err)
	}
	f.byID[file.ID] = file
	return file, nil
}

// waits reports whether to wait for the end of a file's writing. Some keep a file open for
// longer, so that the wait has an end.
func (f *Finder) waits(id ID) bool {
	w := f.written[id]
	if w == nil {
		w = &writing{since: time.Now()}
		f.written[id] = w
	}
	return time.Since(w.since) < patience
}

// Waiting returns the processes that have mapped a file that was being written, to look at them
// again.
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

// remember notes that a file has no probes that matter.
func (f *Finder) remember(key mapped, s stamp) {
	now := time.Now()
	if now.Sub(f.pruned) > believed {
		maps.DeleteFunc(f.known, func(_ mapped, e *entry) bool { return e.file == nil && now.Sub(e.until) > believed })
		f.pruned = now
	}
	until := now.Add(believed)
	if age := now.Sub(time.Unix(s.ctime.Unix())); age >= 0 && age < fresh {
		s, until = stamp{}, now
	}
	f.known[key] = &entry{stamp: s, until: until}
}

// mapFile returns the path that leads to what a process has mapped.
func mapFile(pid int, m *Mapping) string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)
}

// openMapped opens what a process has mapped. /proc/PID/map_files leads to exactly that,
// even if it is deleted or in memory. That takes root or CAP_CHECKPOINT_RESTORE;
// without them, the path will do if it still leads to the same file.
func openMapped(pid int, key mapped, m Mapping) (*os.File, error) {
	file, err := open(mapFile(pid, &m))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	op := fmt.Sprintf("opening %s of process %d", strings.TrimSuffix(key.path, " (deleted)"), pid)
	if shortage.Is(err) {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	for _, root := range []string{fmt.Sprintf("/proc/%d/root", pid), ""} {
		file, openErr := open(root + key.path)
		if openErr != nil {
			continue
		}
		var stat unix.Stat_t
		// The device in maps is a file system's own idea where stat shows an anonymous one.
		if unix.Fstat(int(file.Fd()), &stat) == nil && stat.Ino == key.inode && (stat.Dev == key.device || unix.Major(stat.Dev) == 0) {
			return file, nil
		}
		file.Close()
	}
	needed := []rights.Capability{rights.Restore}
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); errors.Is(err, fs.ErrPermission) {
		needed = append(needed, rights.Ptrace)
	}
	var stat unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", pid), &stat); err == nil && int(stat.Uid) != os.Geteuid() {
		needed = append(needed, rights.Search)
	}
	return nil, rights.Wrap(op, err, needed...)
}

// OpenMapping opens the file of a mapping of a process, as a Finder does: also if it was
// deleted, is in memory, or is in another mount namespace. The error is a *rights.Error if
// rights are missing.
func OpenMapping(pid int, m Mapping) (*os.File, error) {
	return openMapped(pid, mapped{m.Device, m.Inode, m.Path}, m)
}

// Open opens a file with probes, for which a name without a slash is looked for in $PATH if
// there is no such file in the current directory. It returns the same File for the same file.
// The error wraps sdt.ErrNoProbes if it has none, and is lease.ErrWritten if it must not be
// attached to yet.
func (f *Finder) Open(path string) (*File, error) {
	path, opened, err := find(path)
	if err != nil {
		return nil, err
	}
	if onlyDebugging(opened) {
		opened.Close()
		return nil, fmt.Errorf("%s holds only debugging information, and no code to attach to: give the program or library that it belongs to", path)
	}
	file, err := f.read(path, opened)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Dismiss closes a file whose probes do not matter. For a while, it is not found again.
func (f *Finder) Dismiss(file *File) {
	for key, e := range f.known {
		if e.file == file {
			f.remember(key, file.stamp)
		}
	}
	f.Forget(file)
}

// Reconsider finds files again that were dismissed.
func (f *Finder) Reconsider() {
	maps.DeleteFunc(f.known, func(_ mapped, e *entry) bool { return e.file == nil })
}

// Forget closes a file, which is found again if a process has it.
func (f *Finder) Forget(file *File) {
	maps.DeleteFunc(f.known, func(_ mapped, e *entry) bool { return e.file == file })
	if f.byID[file.ID] == file {
		delete(f.byID, file.ID)
	}
	file.Close()
}

// Close closes all files.
func (f *Finder) Close() error {
	var errs []error
	for _, file := range f.byID {
		errs = append(errs, file.Close())
	}
	if f.leases != nil {
		f.leases.Close()
	}
	*f = *NewFinder()
	return errors.Join(errs...)
}
