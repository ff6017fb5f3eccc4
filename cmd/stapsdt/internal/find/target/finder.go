//go:build linux

package target

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/function"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gosource"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// Finder finds the files with probes that processes have mapped. It remembers what it found,
// so that looking again is cheap. It is for one goroutine.
type Finder struct {
	known  map[proc.File]*entry
	fuse   map[uint64]bool // whether devices are FUSE file systems
	purged time.Time       // when expired entries were last removed
	byID   map[ID]*File
	named  map[ID]bool   // files that a user has named
	frozen bool          // whether there are no files but those in byID
	leases *lease.Leases // nil if nothing will be attached
	owners *owners       // nil if there are no budgets
	skips  Skips
	putOff *PutOff // the first file of the process that Process looks at, or nil
	// written holds the files that were open for writing when the finder looked at them.
	written map[ID]*openWriter
	// MaxFunctions is the maximum number of functions that a spec may select.
	MaxFunctions int
	// Debug finds the files with the debug information of others.
	Debug *debugfile.Finder
	// Source finds the source of Go programs.
	Source gosource.Finder
	// specs select functions. reasons maps the string of a spec to the reason why it selects none.
	specs   []spec.Spec
	reasons map[string]error
	// Lacks is called with each file in which a spec selects no function, and the reason. It can be
	// called twice with the same. It may be nil.
	Lacks func(*File, spec.Spec, error)
}

// PutOff is the error of a file that cannot be read yet. The next call of Process looks at it
// again.
type PutOff struct {
	Path string
	Err  error // why it cannot be read
}

func (e *PutOff) Error() string { return fmt.Sprintf("%s is postponed: %v", e.Path, e.Err) }

// NewFinder returns a Finder that has found nothing. Nothing is attached to its files.
func NewFinder() *Finder {
	return &Finder{
		known: map[proc.File]*entry{}, fuse: map[uint64]bool{}, byID: map[ID]*File{},
		named: map[ID]bool{}, written: map[ID]*openWriter{},
		MaxFunctions: function.MaxMatches, Debug: debugfile.New(),
	}
}

// NewTracer returns a Finder that has found nothing. A process that opens one of its files for
// writing waits until nothing is attached to the file.
func NewTracer() *Finder {
	f := NewFinder()
	f.leases = lease.New()
	return f
}

// Limit gives each user of the machine a budget, so that the files of one user cannot delay or
// displace the files of another. It is for processes that the command does not name.
func (f *Finder) Limit() {
	if f.owners == nil {
		f.owners = newOwners(&f.skips)
		f.Debug.Limit()
		f.Source.Limited = true
	}
}

// Skips returns the counters of files that were left out or postponed.
func (f *Finder) Skips() *Skips { return &f.skips }

// Order returns pids with the processes of users who have exceeded their budget last.
func (f *Finder) Order(pids []int) []int {
	if !f.owners.indebted() {
		return pids
	}
	granted := make(map[int]time.Time, len(pids))
	for _, pid := range pids {
		if o := f.owners.of(pid); o != nil {
			granted[pid] = o.granted
		}
	}
	ordered := slices.Clone(pids)
	slices.SortStableFunc(ordered, func(a, b int) int { return granted[a].Compare(granted[b]) })
	return ordered
}

// Broken returns a channel that has a value when another process has opened one of the files for
// writing. It returns nil if nothing will be attached.
func (f *Finder) Broken() <-chan struct{} {
	if f.leases == nil {
		return nil
	}
	return f.leases.Broken
}

// Process returns the files with probes that a process has mapped. The error is
// ErrNoProcess if it has exited, and a *rights.Error if rights are missing to read the process.
// Files that cannot be opened are skipped: skipped is the error for the first of them, or nil. It
// includes a *PutOff for the first file that is put off.
func (f *Finder) Process(pid int) (uses []Use, skipped error, err error) {
	if f.owners.indebted() {
		if o := f.owners.of(pid); o.late(time.Now()) {
			o.skip(skipTime)
			return nil, nil, nil
		}
	}
	mappings, copies, err := f.mappings(pid)
	if err != nil {
		return nil, nil, err
	}
	near := neighbors(mappings, copies)
	f.putOff = nil
	whose := sync.OnceValue(func() *owner { return f.owners.of(pid) })
	at := map[*File]int{}
	for _, all := range byFile(mappings) {
		i := slices.IndexFunc(all, func(m proc.Mapping) bool { return m.Executable })
		if i < 0 && !near[all[0].File] || all[max(i, 0)].Parked() {
			continue
		}
		before := len(f.byID)
		file, err := f.file(pid, &all[max(i, 0)], whose)
		if err != nil && skipped == nil {
			skipped = err
		}
		if file == nil {
			continue
		}
		moved := file.noteMoved(pid, all, copies)
		if i < 0 && !moved {
			if len(f.byID) > before { // it was opened for this look alone
				f.Drop(file)
			}
			continue
		}
		if i, known := at[file]; known { // the file is mapped by another name too
			uses[i].Mappings = append(uses[i].Mappings, all...)
			uses[i].Moved = uses[i].Moved || moved
			continue
		}
		at[file], uses = len(uses), append(uses, Use{file, all, moved})
	}
	switch {
	case f.putOff == nil:
	case skipped == nil:
		skipped = f.putOff
	default:
		skipped = fmt.Errorf("%w; %w", skipped, f.putOff)
	}
	return uses, skipped, nil
}

// file returns nil if the file has no probes, or must not be attached to yet. whose returns the
// owner of the process.
func (f *Finder) file(pid int, m *proc.Mapping, whose func() *owner) (*File, error) {
	if e := f.lookup(pid, m); e != nil {
		return e.file, nil
	}
	now, key := time.Now(), m.File
	f.expire(now)
	// The rights to open the file are not needed before this point.
	o := whose()
	if f.refuses(o, now) {
		return nil, nil
	}
	defer o.charge(now)
	asked := f.owners == nil // the user has named the process
	if !f.named[ID{key.Device, key.Inode}] && f.isFUSE(pid, key.Device) &&
		!(asked && proc.IsOwnFUSE(key.Device)) {
		f.enter(key, &entry{until: now.Add(entryTTL), skip: true, owner: o})
		f.skips.add(skipFUSE, "%s is left out, because it is on a FUSE file system, whose server could stop this command; to trace it, name the file", key.Path)
		return nil, nil
	}
	opened, err := openContent(
		o.stallKey(key.Device), func() (*os.File, error) { return openMapped(pid, m) },
	)
	if err == nil {
		return f.readMapped(pid, key, opened, o)
	}
	var leased *leasedError
	switch {
	case err == stall.Err:
		f.skips.add(skipUnresponsive, "%w", f.later(key.Path, err))
	case errors.As(err, &leased):
		f.skips.add(skipUnresponsive, "%w", f.later(key.Path, errors.New("a process has a write lease on it")))
	default:
		return nil, err
	}
	return nil, nil
}

// later notes that a file is put off.
func (f *Finder) later(path string, err error) *PutOff {
	e := &PutOff{path, err}
	if f.putOff == nil {
		f.putOff = e
	}
	return e
}

// refuses reports whether an owner must not have another file now.
func (f *Finder) refuses(o *owner, now time.Time) bool {
	if o.late(now) {
		o.skip(skipTime)
		return true
	}
	return !o.affords(descriptor(fileSize), skipDescriptors)
}

// readMapped returns the File of an opened file that a process has mapped, or nil.
func (f *Finder) readMapped(pid int, key proc.File, opened *Content, o *owner) (*File, error) {
	file, err := f.read(pid, key.Path, opened, o)
	switch {
	case err == nil:
		f.enter(key, &entry{file: file, owner: o})
		return file, nil
	case errors.Is(err, stall.Err):
		f.skips.add(skipUnresponsive, "%w", f.later(key.Path, stall.Err))
	case errors.Is(err, lease.ErrWritten):
		f.later(key.Path, lease.ErrWritten)
		w := f.written[file.ID]
		w.pids = append(w.pids, pid)
	case errors.Is(err, errManyProbes): // it is not remembered, because other users can map it too
	default:
		f.remember(key, file.stamp, o)
	}
	return nil, nil
}

// errOther means that a file is not among those that are looked for.
var errOther = errors.New("another file")

// Freeze makes the finder ignore all files that are not open, and find no further functions.
func (f *Finder) Freeze() { f.frozen, f.specs = true, nil }

// errManyProbes means that the files of a user have too many probes.
var errManyProbes = errors.New("too many probes")

// read returns the File of an open file, whose path a process sees, or this one if pid is 0: the
// one that exists already, or a new one with its probes. It closes opened unless a new File
// keeps it. The error is lease.ErrWritten if the file must not be attached to yet.
func (f *Finder) read(
	pid int, path string, opened *Content, o *owner,
) (file *File, err error) {
	file = &File{Path: path, pid: pid, debug: f.Debug, content: opened}
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
	} else if f.frozen {
		return file, errOther
	}
	err = file.read(f) // without a lease, because most files have no probes
	if err == nil && !o.affords(file.size()+entrySize(path), skipProbes) {
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
		err = file.read(f) // again, because the file may have changed before the lease
	} else if err == nil {
		file.describeAll()
	}
	if err != nil {
		return file, fmt.Errorf("%s: %w", path, err)
	}
	if file.Lower != nil {
		file.Lower.lease.Release() // only the copy can be written
	}
	if f.leases != nil && f.owners == nil { // otherwise all processes are looked at
		f.findMoved(file)
	}
	f.byID[file.ID] = file
	o.open(file)
	return file, nil
}

// Open opens a file with probes. It looks up a name without a slash in $PATH if there is no
// such file in the current directory. It returns the same File for the same file. The error
// wraps sdt.ErrNoProbes if the file has no probes, and is lease.ErrWritten if it must not be
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
		return nil, fmt.Errorf("%s has only debugging information and no code to attach to: give the program or library that it belongs to", path)
	}
	file, err := f.read(0, path, opened, nil)
	f.named[file.ID] = true // even if it is being written
	if err != nil {
		return nil, err
	}
	// it may have been found, and ignored, before it was opened here
	f.purge(func(e *entry) bool { return e.stamp.ID == file.ID })
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
