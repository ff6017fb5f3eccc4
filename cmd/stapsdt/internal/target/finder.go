//go:build linux

package target

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"
)

// Finder finds the files with probes that processes have mapped. It remembers what it found,
// so that looking again is cheap. It is for one goroutine.
type Finder struct {
	known  map[mapKey]*entry
	purged time.Time // when expired entries were last removed
	byID   map[ID]*File
	named  map[ID]bool   // what was opened by a name that a user has given
	leases *lease.Leases // nil if nothing will be attached
	mounts mounts
	owners *owners // nil if there are no budgets
	skips  Skips
	// written has the files that were open for writing when they were looked at.
	written map[ID]*openWriter
	// specs select functions. reasons says why a spec, by its string, selects none.
	specs   []spec.Spec
	reasons map[string]error
}

// openWriter is a file that another process is writing, or could.
type openWriter struct {
	since time.Time // when it was first found so
	pids  []int     // that have mapped it
}

const (
	entryTTL = 30 * time.Second
	// timestampStep is how long after a change another one may leave the times of a file as they are.
	timestampStep = time.Second
	// slowMaps is how long reading a memory map may take before it counts against a budget.
	slowMaps = 5 * time.Millisecond
	// patience is how long a file that is open for writing is not attached to.
	patience = 2 * time.Second
)

// NewFinder returns a Finder that has found nothing. Nothing is attached to its files.
func NewFinder() *Finder {
	return &Finder{known: map[mapKey]*entry{}, mounts: mounts{}, byID: map[ID]*File{}, named: map[ID]bool{}, written: map[ID]*openWriter{}}
}

// NewTracer returns a Finder that has found nothing. While it has a file, others wait to write
// to the file until nothing is attached to it.
func NewTracer() *Finder {
	f := NewFinder()
	f.leases = lease.New()
	return f
}

// Limit gives each user of the machine a budget, so that the files of one cannot delay or displace
// those of another. It is for processes that the user has not named.
func (f *Finder) Limit() {
	if f.owners == nil {
		f.owners = newOwners(&f.skips)
	}
}

// Skips returns the counters of files that were left out or postponed.
func (f *Finder) Skips() *Skips { return &f.skips }

// Order returns pids with the processes of users who have exceeded their budget last.
func (f *Finder) Order(pids []int) []int {
	if !f.owners.indebted() {
		return pids
	}
	now := f.owners.now()
	owed := make(map[int]time.Duration, len(pids))
	for _, pid := range pids {
		if o := f.owners.of(pid); o != nil {
			owed[pid] = o.owed(now)
		}
	}
	ordered := slices.Clone(pids)
	slices.SortStableFunc(ordered, func(a, b int) int { return cmp.Compare(owed[a], owed[b]) })
	return ordered
}

// Broken receives a value when others begin to write to a file. It is nil if nothing will be
// attached.
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
	Mappings []proc.Mapping
}

// Process returns the files with probes that a process has mapped. The error is
// ErrNoProcess if it has exited, and a *rights.Error if rights are missing to read the process.
// Files that cannot be opened are skipped: skipped is the reason of the first of them.
func (f *Finder) Process(pid int) (uses []Use, skipped error, err error) {
	if f.owners.indebted() {
		if o := f.owners.of(pid); o.late(time.Now()) {
			o.outOfTime()
			return nil, nil, nil
		}
	}
	mappings, err := f.mappings(pid)
	if err != nil {
		return nil, nil, err
	}
	whose := sync.OnceValue(func() *owner { return f.owners.of(pid) })
	at := map[*File]int{}
	for _, all := range byFile(mappings) {
		i := slices.IndexFunc(all, func(m proc.Mapping) bool { return m.Executable })
		if i < 0 || all[i].Parked() {
			continue
		}
		file, err := f.file(pid, &all[i], whose)
		if err != nil && skipped == nil {
			skipped = err
		}
		if file == nil {
			continue
		}
		if i, known := at[file]; known { // by another name
			uses[i].Mappings = append(uses[i].Mappings, all...)
			continue
		}
		at[file], uses = len(uses), append(uses, Use{file, all})
	}
	return uses, skipped, nil
}

// mappings returns the mappings of files in a process.
func (f *Finder) mappings(pid int) ([]proc.Mapping, error) {
	start := time.Now()
	mappings, more, err := proc.Mappings(pid)
	if time.Since(start) > slowMaps {
		f.owners.of(pid).charge(start)
	}
	if more {
		who := "a process"
		if o := f.owners.of(pid); o != nil {
			who += " of " + o.id.String()
		}
		f.skips.add(skipMappings, "%s has mapped too much: the rest is left out", who)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = rights.New(fmt.Sprintf("reading the memory map of process %d", pid), err, rights.Ptrace)
	}
	return mappings, err
}

// byFile divides mappings by their files, in the order of the first of each.
func byFile(mappings []proc.Mapping) (all [][]proc.Mapping) {
	at := map[mapKey]int{}
	for _, m := range mappings {
		i, known := at[keyOf(&m)]
		if !known {
			i = len(all)
			at[keyOf(&m)], all = i, append(all, nil)
		}
		all[i] = append(all[i], m)
	}
	return all
}

// file returns nil if the file has no probes, or must not be attached to yet. whose returns the owner
// of the process.
func (f *Finder) file(pid int, m *proc.Mapping, whose func() *owner) (*File, error) {
	if e := f.lookup(pid, m); e != nil {
		return e.file, nil
	}
	now, key := time.Now(), keyOf(m)
	// Only now are the rights needed that opening takes.
	o := whose()
	if f.refuses(o, now) {
		return nil, nil
	}
	defer o.charge(now)
	if !f.named[ID{key.device, key.inode}] && f.mounts.isFUSE(pid, key.device) {
		f.known[key] = &entry{until: now.Add(entryTTL), skip: true}
		f.skips.add(skipFUSE, "%s is left out, because it is on a FUSE file system, whose server could stop this command; to trace it, name the file", key.path)
		return nil, nil
	}
	opened, err := openContent(o.stallKey(key.device), func() (*os.File, error) { return openMapped(pid, m) })
	if err == nil {
		return f.readMapped(pid, key, opened, o)
	}
	var leased *leasedError
	switch {
	case err == stall.Err:
		f.skips.add(skipUnresponsive, "%s is put off: %w", key.path, err)
	case errors.As(err, &leased):
		f.skips.add(skipUnresponsive, "%s is put off, because a process has a write lease on it", key.path)
	default:
		return nil, err
	}
	return nil, nil
}

// refuses reports whether an owner must not have another file now.
func (f *Finder) refuses(o *owner, now time.Time) bool {
	switch {
	case o == nil:
		return false
	case o.late(now):
		o.outOfTime()
	case o.descriptors >= maxDescriptors():
		o.outOfDescriptors()
	default:
		return false
	}
	return true
}

// readMapped returns the File of what a process has mapped, or nil.
func (f *Finder) readMapped(pid int, key mapKey, opened *Content, o *owner) (*File, error) {
	file, err := f.read(key.path, opened, o)
	switch {
	case err == nil:
		f.known[key] = &entry{file: file, stamp: file.stamp}
		return file, nil
	case errors.Is(err, stall.Err):
		f.skips.add(skipUnresponsive, "%s is put off: %w", key.path, stall.Err)
	case errors.Is(err, lease.ErrWritten):
		w := f.written[file.ID]
		w.pids = append(w.pids, pid)
	case errors.Is(err, errManyProbes):
		// It is not remembered, because others can map the same file.
		f.skips.add(skipProbes, "%v has files with more than %d probes: the others are left out", o.id, maxProbes)
	default:
		f.remember(key, file.stamp, o)
	}
	return nil, nil
}

// errManyProbes means that the files of a user have too many probes.
var errManyProbes = errors.New("too many probes")

// read returns the File of an open file: the one that exists already, or a new one with its
// probes. The file is closed otherwise. The error is lease.ErrWritten if the file must not be
// attached to yet.
func (f *Finder) read(path string, opened *Content, o *owner) (file *File, err error) {
	file = &File{Path: path, content: opened}
	defer func() {
		if file.content != opened || err != nil {
			opened.Close()
		}
	}()
	if err = file.identify(); err != nil {
		return file, fmt.Errorf("%s: %w", path, err)
	}
	if same := f.byID[file.ID]; same != nil && !same.Changed() {
		if !same.Copied() {
			return same, nil
		}
		file.Lower = same
	}
	err = file.read(f) // most files have no probes
	if err == nil && o != nil && o.probes+len(file.Probes) > maxProbes {
		return file, errManyProbes
	}
	if err == nil && f.leases != nil {
		if err = file.guard(f.leases); errors.Is(err, stall.Err) || err != nil && f.waits(file.ID) {
			return file, err
		}
		defer func() {
			if err != nil {
				file.lease.Release()
			}
		}()
		err = file.read(f) // what is in the file from now on
	} else if err == nil {
		file.describeAll()
	}
	if err != nil {
		return file, fmt.Errorf("%s: %w", path, err)
	}
	if file.Lower != nil {
		file.Lower.lease.Release() // only the copy can be written
	}
	f.byID[file.ID] = file
	o.open(file)
	return file, nil
}

// waits reports whether to wait for the end of a file's writing. Some keep a file open for
// longer, so that the wait has an end.
func (f *Finder) waits(id ID) bool {
	w := f.written[id]
	if w == nil {
		w = &openWriter{since: time.Now()}
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

// Open opens a file with probes, for which a name without a slash is looked for in $PATH if
// there is no such file in the current directory. It returns the same File for the same file.
// The error wraps sdt.ErrNoProbes if it has none, and is lease.ErrWritten if it must not be
// attached to yet.
func (f *Finder) Open(path string) (*File, error) {
	path, opened, err := find(path)
	var leased *leasedError
	if errors.As(err, &leased) && f.waits(leased.ID) {
		return nil, lease.ErrWritten // so that the lease has time to end
	}
	if err != nil {
		return nil, err
	}
	if onlyDebugging(opened) {
		opened.Close()
		return nil, fmt.Errorf("%s holds only debugging information, and no code to attach to: give the program or library that it belongs to", path)
	}
	file, err := f.read(path, opened, nil)
	f.named[file.ID] = true // also if it is being written
	if err != nil {
		return nil, err
	}
	f.purge(func(e *entry) bool { return e.stamp.ID == file.ID }) // it may have been found, and ignored, before it was opened here
	return file, nil
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
