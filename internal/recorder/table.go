package recorder

import "unsafe"

// slots is the number of shards that threads can own. It is a power of two.
const slots = 64

// window is the number of slots in which a thread's is found, from that of its hash on.
const window = 4

// table is what the assembly knows of a writer. It is in memory of its own, which a forked
// child finds filled with zeros.
type table struct {
	alive   uint64 // 1, or 0 in a forked child
	counter uint64 // 1 if the time is the processor's counter, or 0 if it is passed
	mask    uint64 // the number of slots in use, less 1
	_       [5]uint64
	slots   [slots + window]slot // the last ones are never owned: a search needs no wrapping
}

// slot is a shard that one of the runtime's threads (an M) owns. Only this thread writes to it,
// in assembly, or in Go with the thread locked and the slot's lock held.
type slot struct {
	key       uint64 // the address of the M, or 0
	next      uint64 // the address of the next record
	end       uint64 // the address of the chunk's end
	base      uint64 // the address of the chunk's first record
	committed uint64 // the address of the size of the chunk's records
	events    uint64 // the number of the shard's events
	read      uint64 // the counter at the last Reading in the chunk
	interval  uint64 // after how many ticks another Reading follows
}

const tableBytes = unsafe.Sizeof(table{})
