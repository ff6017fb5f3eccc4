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

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"golang.org/x/sys/unix"
)

// Finder finds the files with probes that processes have mapped. It remembers what it found,
// so that looking again is cheap. It is for one goroutine.
type Finder struct {
	files map[mapped]*File
	// without has the files that have no probes, and until when this is believed: the
	// inode of a deleted file can become that of another one.
	without map[mapped]time.Time
	pruned  time.Time // when those that are no longer believed were removed
	byID    map[ID]*File
}

// mapped is a file as it appears in /proc/PID/maps. The device and the inode are not always
// those of its ID, for example on btrfs and overlayfs.
type mapped struct {
	device, inode uint64
	path          string
}

const believed = 30 * time.Second

// NewFinder returns a Finder that has found nothing.
func NewFinder() *Finder {
	return &Finder{files: map[mapped]*File{}, without: map[mapped]time.Time{}, byID: map[ID]*File{}}
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

// Knows reports whether a file that is mapped was looked at already, so that its probes are
// known, or that it has none.
func (f *Finder) Knows(m *Mapping) bool {
	key := mapped{m.Device, m.Inode, m.Path}
	return f.files[key] != nil || time.Now().Before(f.without[key])
}

// file returns nil if the file has no probes.
func (f *Finder) file(pid int, key mapped, m Mapping) (*File, error) {
	if file := f.files[key]; file != nil {
		return file, nil
	}
	now := time.Now()
	if now.Before(f.without[key]) {
		return nil, nil
	}
	// Only now are the rights needed that opening takes.
	opened, err := openMapped(pid, key, m)
	if err != nil {
		return nil, err
	}
	file, err := read(key.path, opened)
	if err != nil {
		f.remember(key, now)
		return nil, nil
	}
	if same := f.byID[file.ID]; same != nil {
		file.Close()
		file = same
	}
	f.files[key] = file
	f.byID[file.ID] = file
	return file, nil
}

// remember notes that a file has no probes.
func (f *Finder) remember(key mapped, now time.Time) {
	if now.Sub(f.pruned) > believed {
		maps.DeleteFunc(f.without, func(_ mapped, until time.Time) bool { return now.After(until) })
		f.pruned = now
	}
	f.without[key] = now.Add(believed)
}

// openMapped opens what a process has mapped. /proc/PID/map_files leads to exactly that,
// even if it is deleted or in memory. That takes root or CAP_CHECKPOINT_RESTORE;
// without them, the path will do if it still leads to the same file.
func openMapped(pid int, key mapped, m Mapping) (*os.File, error) {
	file, err := open(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return file, err
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
	return nil, rights.New(fmt.Sprintf("opening %s of process %d", strings.TrimSuffix(key.path, " (deleted)"), pid), err, needed...)
}

// OpenMapping opens the file of a mapping of a process, as a Finder does: also if it was
// deleted, is in memory, or is in another mount namespace. The error is a *rights.Error if
// rights are missing.
func OpenMapping(pid int, m Mapping) (*os.File, error) {
	return openMapped(pid, mapped{m.Device, m.Inode, m.Path}, m)
}

// Open is the function Open. It returns the same File for the same file.
func (f *Finder) Open(path string) (*File, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	if same := f.byID[file.ID]; same != nil {
		file.Close()
		return same, nil
	}
	f.byID[file.ID] = file
	return file, nil
}

// Dismiss closes a file whose probes do not matter. For a while, it is not found again.
func (f *Finder) Dismiss(file *File) {
	until := time.Now().Add(believed)
	for key, other := range f.files {
		if other == file {
			f.without[key] = until
		}
	}
	f.Forget(file)
}

// Reconsider finds files again that were dismissed.
func (f *Finder) Reconsider() { clear(f.without) }

// Forget closes a file, which is found again if a process has it.
func (f *Finder) Forget(file *File) {
	maps.DeleteFunc(f.files, func(_ mapped, other *File) bool { return other == file })
	delete(f.byID, file.ID)
	file.Close()
}

// Close closes all files.
func (f *Finder) Close() error {
	var errs []error
	for _, file := range f.byID {
		errs = append(errs, file.Close())
	}
	*f = *NewFinder()
	return errors.Join(errs...)
}
