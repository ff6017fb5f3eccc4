//go:build linux

package target

import (
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"

	"golang.org/x/sys/unix"
)

// Every user of the machine has a budget in a tracer, so that the files of one user cannot delay or
// displace the files of another. Root of the machine itself has none. The budget consists of time,
// which is granted continuously, and of memory, which can be kept forever. A descriptor is charged
// as memory.
const (
	// timeShare is the part of a processor that reading the files of an owner may take, as
	// 1/timeShare. 1/allShare is the part for all owners together, who get equal parts of it.
	// timeBurst is the time that the files of one owner may take at once.
	timeShare = 10
	allShare  = 2
	timeBurst = 300 * time.Millisecond
	// budget is the memory in bytes that the files of an owner may take, by the approximate sizes
	// below.
	budget    = 32 << 20
	probeSize = 512
	fileSize  = 8 << 10 // of an open file
	kindSize  = 8 << 10 // of a program for a kind of selected probes
	linkSize  = 2 << 10 // of a program that is attached to a file
	// descriptorShare is the part of the descriptors that an owner may take, as 1/descriptorShare.
	descriptorShare = 8
)

// owner records the resources of a tracer that a user has used.
type owner struct {
	id  proc.Owner
	all *owners
	// granted is when the time that the files have taken will have been granted.
	granted time.Time
	used    atomic.Int64    // of the budget
	kinds   map[string]bool // those of programs that serve all files, by bpf.Probe.Key
}

// owners are the users of the machine who have files.
type owners struct {
	byID  map[proc.Owner]*owner
	skips *Skips
	// root holds the mount namespaces whose root is not limited: of process 1, and of this process.
	root map[uint64]bool
	// share is the part of a processor that each owner has now, as 1/share.
	share time.Duration
}

func newOwners(skips *Skips) *owners {
	o := &owners{
		byID: map[proc.Owner]*owner{}, skips: skips, root: map[uint64]bool{}, share: timeShare,
	}
	for _, pid := range []string{"1", "self"} {
		if inode, ok := proc.Inode("/proc/" + pid + "/ns/mnt"); ok {
			o.root[inode] = true
		}
	}
	return o
}

// descriptor returns the part of a budget that a descriptor takes with its memory of a size:
// where descriptors are scarcer, as large a part as it is of an owner's descriptors. Their limit
// can change.
func descriptor(size int64) int64 {
	limit := unix.Rlimit{Cur: 1024}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return max(size, int64(budget*descriptorShare/max(limit.Cur, 1)))
}

// Spend reports whether the budget of the file's owner allows a program for probes of a kind. If
// alone is true, it serves this file only, and is released with the file. Otherwise it serves all
// files, and is never released.
func (f *File) Spend(kind string, alone bool) bool {
	o := f.owner
	if o == nil {
		return true
	}
	kinds := o.kinds
	if alone {
		kinds = f.kinds
	}
	if kinds[kind] {
		return true
	}
	cost := descriptor(kindSize)
	if !o.affords(cost, skipDescriptors) {
		return false
	}
	kinds[kind] = true
	o.add(cost)
	if alone {
		f.cost += cost
	}
	return true
}

// HasBudget reports whether the file's owner has a budget.
func (f *File) HasBudget() bool { return f.owner != nil }

// Affords reports whether the budget of the file's owner has room for n links of programs.
func (f *File) Affords(n int) bool {
	return f.owner.affords(int64(n)*descriptor(linkSize), skipDescriptors)
}

// Room returns the number of links of programs for which the budget has room. Any goroutine may
// call it.
func (f *File) Room() int {
	if f.owner == nil {
		return math.MaxInt
	}
	return int((budget - f.owner.used.Load()) / descriptor(linkSize))
}

// Paid charges n links to the file's owner until they are closed. Any goroutine may call it, and
// close them.
func (f *File) Paid(links io.Closer, n int) io.Closer {
	p := paid{links, f.owner, int64(n) * descriptor(linkSize)}
	p.owner.add(p.cost)
	return p
}

// paid is a set of links that are charged to an owner until they are closed.
type paid struct {
	io.Closer
	owner *owner
	cost  int64
}

func (p paid) Close() error {
	defer p.owner.add(-p.cost)
	return p.Closer.Close()
}

// Charge charges the time since a start to the file's owner. It may be called after the file was
// closed.
func (f *File) Charge(start time.Time) { f.owner.charge(start) }

// size returns the cost of the open file without its programs and links.
func (f *File) size() int64 { return descriptor(fileSize) + probeSize*int64(len(f.Probes)) }

// open charges the file to its owner.
func (o *owner) open(f *File) {
	f.owner, f.kinds, f.cost = o, map[string]bool{}, f.size()
	o.add(f.cost)
}

// close undoes the charges for a file.
func (o *owner) close(f *File) { o.add(-f.cost) }

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
		known = &owner{id: id, all: o, kinds: map[string]bool{}}
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

// purge removes owners that use nothing and owe nothing.
func (o *owners) purge() {
	now := time.Now()
	for id, owner := range o.byID {
		if owner.used.Load() == 0 && !owner.granted.After(now) {
			delete(o.byID, id)
		}
	}
}

// charge adds the time since a start to the time that has to be granted.
func (o *owner) charge(start time.Time) {
	if o == nil {
		return
	}
	now := time.Now()
	if o.granted.Before(now) {
		o.granted = now
	}
	o.granted = o.granted.Add(now.Sub(start) * o.all.share)
}

// late reports whether the owner's files have to wait for the files of others.
func (o *owner) late(now time.Time) bool {
	return o != nil && o.granted.Sub(now) > timeBurst*o.all.share
}

// add adds a cost to the used part of the budget.
func (o *owner) add(cost int64) {
	if o != nil {
		o.used.Add(cost)
	}
}

// has reports whether the budget has room for a cost.
func (o *owner) has(cost int64) bool { return o == nil || o.used.Load()+cost <= budget }

// affords is has, but counts a file or probe as left out, with the reason, if there is no room.
func (o *owner) affords(cost int64, why reason) bool {
	room := o.has(cost)
	if !room {
		o.skip(why)
	}
	return room
}

// skip counts a file or a probe of the owner that is left out, or has to wait.
func (o *owner) skip(why reason) { o.all.skips.add(why, shareUsed[why], o.id) }

// indebted reports whether any owner's files have to wait. It divides the granted time among the
// owners who have taken some in advance.
func (o *owners) indebted() (late bool) {
	if o == nil {
		return false
	}
	now, n := time.Now(), time.Duration(0)
	for _, owner := range o.byID {
		late = owner.late(now) || late
		if owner.granted.After(now) {
			n++
		}
	}
	o.share = max(timeShare, allShare*n)
	return late
}
