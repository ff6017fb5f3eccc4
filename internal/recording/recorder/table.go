package recorder

import (
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// slots is the number of shards that threads can own. It is a power of two.
const slots = 64

// commons is the maximum number of shards that threads without one share.
const commons = recording.MaxShards - slots

// Keys of slots that are not the address of an M.
const (
	reserved = 1 // no thread may take the slot
	sharing  = 2 // a fire is in a slot that threads share
)

// window is the number of slots, from the slot of a thread's hash on, in which its slot is found.
const window = 4

// table is the state of a writer that the assembly uses. It is in memory of its own, which a
// forked child finds filled with zeros.
type table struct {
	alive   uint64 // 1, or 0 in a forked child
	counter uint64 // 1 if the time is the processor's counter, or 0 if it is passed
	mask    uint64 // the number of slots in use, less 1
	common  uint64 // the number of shared slots that the assembly uses
	_       [4]uint64
	slots   [slots + window]slot // the last ones are never owned: a search needs no wrapping
	shared  [commons]slot
}

// slot is a shard that one of the runtime's threads (an M) owns. Only this thread writes to it, in
// assembly, or in Go with the thread locked and the slot's lock held. Or threads share the slot,
// and its key is a lock, under which the assembly is never preempted: a preempted fire that held
// the lock would cost others their events.
type slot struct {
	key       uint64 // the address of the M, or 0, or one of the keys above
	next      uint64 // the address of the next record
	end       uint64 // the address of the chunk's end
	base      uint64 // the address of the chunk's first record
	committed uint64 // the address of the size of the chunk's records
	events    uint64 // the number of the shard's events
	// the counter at the last Reading in the chunk or, without a counter, the time of the last
	// record
	read     uint64
	interval uint64 // the number of ticks after which another Reading follows
}

const tableBytes = unsafe.Sizeof(table{})
