//go:build linux

package target

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"

	"golang.org/x/sys/unix"
)

// Every user of the machine has a budget in a tracer, so that the files of one user cannot delay or displace
// the files of another. Root of the machine itself has none.
const (
	// timeShare is the part of a processor that reading the files of an owner may take, as
	// 1/timeShare. 1/allShare is the part for all owners together, who get equal parts of it.
	// timeBurst is the time that the files of one owner may take at once.
	timeShare = 10
	allShare  = 2
	timeBurst = 300 * time.Millisecond
	// maxProbes is the maximum number of probes in the files that are kept for an owner, and so of
	// the probes that can be attached to. Each takes about half a kilobyte.
	maxProbes = 1 << 16
	// descriptorShare is the part of the descriptors that an owner may take, as 1/descriptorShare. A file
	// takes one, and another for each kind of its probes. A kind takes one more, which is never released.
	descriptorShare = 8
	// maxKinds is the maximum number of kinds of selected probes that an owner's files may ever have had.
	maxKinds = 4096
	// maxIgnored is the maximum size in bytes of the entries of an owner's files that do not matter.
	maxIgnored = 2 << 20
)

// owner records the resources of a tracer that a user has used.
type owner struct {
	id  proc.Owner
	all *owners
	// debt is the time that was taken for the files, minus the time that was granted until at.
	debt time.Duration
	at   time.Time
	// files counts the open files. probes and descriptors count their probes and descriptors.
	files, probes, descriptors int
	kinds                      map[string]bool // by bpf.Probe.Key
	ignored                    int             // size in bytes of the entries of files that do not matter
	skips                      *Skips
}

// owners are the users of the machine who have files.
type owners struct {
	byID  map[proc.Owner]*owner
	skips *Skips
	// root holds the mount namespaces whose root is not limited: of process 1, and of this process.
	root map[uint64]bool
	now  func() time.Time
	// share is the part of a processor that each owner has now, as 1/share.
	share time.Duration
}

func newOwners(skips *Skips) *owners {
	o := &owners{
		byID: map[proc.Owner]*owner{}, skips: skips,
		root: map[uint64]bool{}, now: time.Now, share: timeShare,
	}
	for _, pid := range []string{"1", "self"} {
		if inode, ok := proc.Inode("/proc/" + pid + "/ns/mnt"); ok {
			o.root[inode] = true
		}
	}
	return o
}

// maxDescriptors returns the maximum number of descriptors of an owner. The limit of the process can change.
func maxDescriptors() int {
	limit := unix.Rlimit{Cur: 1024}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return int(min(limit.Cur, 1<<30)) / descriptorShare
}

// Spend reports whether the budget of the file's owner allows attaching to probes of a kind. If so, it
// counts their descriptors. If alone is true, the program of the kind serves this file only, and is
// released with the file.
func (f *File) Spend(kind string, alone bool) bool {
	o := f.owner
	if o == nil || f.kinds[kind] > 0 {
		return true
	}
	cost, isNew := 1, !alone && !o.kinds[kind]
	if alone || isNew {
		cost++
	}
	if o.descriptors+cost > maxDescriptors() || isNew && len(o.kinds) == maxKinds {
		o.outOfDescriptors()
		return false
	}
	if f.kinds == nil {
		f.kinds = map[string]int{}
	}
	if f.kinds[kind] = 1; alone {
		f.kinds[kind] = 2
	}
	if o.kinds == nil {
		o.kinds = map[string]bool{}
	}
	if isNew {
		o.kinds[kind] = true
	}
	o.descriptors += cost
	return true
}

// Charge adds the time since a start to the debt of the file's owner. It may be called after the file was closed.
func (f *File) Charge(start time.Time) { f.owner.charge(start) }

// open counts a file.
func (o *owner) open(f *File) {
	if o != nil {
		f.owner = o
		o.files++
		o.descriptors++
		o.probes += len(f.Probes)
	}
}

// close undoes open.
func (o *owner) close(f *File) {
	if o != nil {
		o.files--
		o.descriptors--
		for _, descriptors := range f.kinds {
			o.descriptors -= descriptors
		}
		o.probes -= len(f.Probes)
	}
}

// of returns the owner of a process, or nil if the owner is root of the machine or there are no
// budgets.
func (o *owners) of(pid int) *owner {
	if o == nil {
		return nil
	}
	id := proc.OwnerOf(pid)
	if id.UID == 0 && (id.Namespace == 0 || o.root[id.Namespace]) {
		return nil
	}
	known := o.byID[id]
	if known == nil {
		o.purge()
		known = &owner{id: id, all: o, at: o.now(), skips: o.skips}
		o.byID[id] = known
	}
	return known
}

// stallKey returns the key, for package stall, of a file system to which the owner's files lead.
func (o *owner) stallKey(system any) any {
	if o == nil {
		return system
	}
	return stall.Of{Owner: o.id, System: system}
}

// purge removes owners without files, kinds and debt.
func (o *owners) purge() {
	for id, owner := range o.byID {
		if owner.files == 0 && len(owner.kinds) == 0 && owner.owed(o.now()) == 0 {
			delete(o.byID, id)
		}
	}
}

// owed updates and returns the debt.
func (o *owner) owed(now time.Time) time.Duration {
	o.debt = max(o.debt-now.Sub(o.at)/o.all.share, 0)
	o.at = now
	return o.debt
}

// charge adds the time since a start to the debt.
func (o *owner) charge(start time.Time) {
	if o != nil {
		now := time.Now()
		o.debt = o.owed(now) + now.Sub(start)
	}
}

// late reports whether the owner's files have to wait for the files of others.
func (o *owner) late(now time.Time) bool { return o != nil && o.owed(now) > timeBurst }

// outOfTime counts a file that has to wait for the files of others.
func (o *owner) outOfTime() {
	o.skips.add(skipTime, "%v has used up the time for reading files: the others have to wait", o.id)
}

// outOfDescriptors counts a file or probe for which the owner has no descriptors left.
func (o *owner) outOfDescriptors() {
	o.skips.add(skipDescriptors, "%v has used up its descriptors: its other files and probes are left out", o.id)
}

// indebted reports whether any owner's files have to wait. It divides the granted time among the owners
// with a debt.
func (o *owners) indebted() (late bool) {
	if o == nil {
		return false
	}
	now, n := o.now(), time.Duration(0)
	for _, owner := range o.byID {
		late = owner.late(now) || late
		if owner.debt > 0 {
			n++
		}
	}
	o.share = max(timeShare, allShare*n)
	return late
}
