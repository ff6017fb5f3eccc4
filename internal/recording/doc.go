// Package recording defines the format of recordings, and reads them. A recording holds the
// last events of a process, in a file or in memory that the process shares, and stays
// readable however the process ends. docs/recording.md describes the format for other
// readers; package recorder writes it.
//
// A recording is a head, a table of probes and chunks of one size:
//
//	offset  size
//	     0  4,096       head: the version and the clock of the recording, the sizes of its parts
//	 4,096  TableBytes  a description of each probe, in the order of the probes' numbers
//	        ChunkBytes  each chunk: a head, and the records of one shard
//
// All integers are little-endian. A part that grows is written before its size, so that a reader
// finds whole records at any instant. A chunk that is reused for later events has the sequence
// number 0 meanwhile, and another one afterwards: a reader compares the number before and after
// it has copied a chunk.
package recording

// Magic is the beginning of a recording.
const Magic = "stapsdt\x1a"

// The version of the format. A reader accepts every minor version of its major version, and no
// other major version. A minor version may give a meaning to bytes that were zero, may add
// entries' flags, and may add records with numbers above maxProbe; a reader skips those that it
// does not know.
const (
	Major = 1
	Minor = 2
)

// The sizes of the format.
const (
	HeadBytes = 4096
	// ChunkBytes is the size of a chunk with its head. The largest event takes about 50,000 bytes.
	ChunkBytes     = 64 << 10
	ChunkHeadBytes = 64
	// RecordHeadBytes is the size of a record's beginning: its size and its probe's number in
	// four bytes each, the time and the origin in eight bytes each. A word of eight bytes for
	// each argument follows, and then the texts. The word of a string is the length of its text;
	// each text has at least one zero after it, up to a multiple of 8 bytes.
	RecordHeadBytes = 24
	// MaxTableBytes is the largest table of probes that a reader accepts.
	MaxTableBytes = 16 << 20
	// MaxShards is the largest number of shards.
	MaxShards = 256
	// MinBytes and MaxBytes bound the size of a recording that a process makes of itself. It
	// allocates all of it when it begins.
	MinBytes = 4 * ChunkBytes
	MaxBytes = 1 << 30
	// maxProbe is the largest number of a probe.
	maxProbe = 1<<24 - 1
	// ReadingRecord is the number of a record that is a Reading of the clocks, and no event: its
	// time is by the recording's clock, its origin is 0, and two words follow,
	// CLOCK_MONOTONIC and CLOCK_REALTIME in nanoseconds.
	ReadingRecord = 1<<32 - 1
)

// The offsets of a head.
const (
	offMagic      = 0
	offMajor      = 8  // 2 bytes
	offMinor      = 10 // 2 bytes
	offClock      = 12 // 4 bytes: a ClockKind
	offTableBytes = 16
	OffTableUsed  = 24 // the number of bytes of the table that are written
	OffChunks     = 32 // the number of chunks
	offShards     = 40 // 4 bytes: the number of shards
	OffPID        = 44 // 4 bytes
	// when the process started, in ticks since the boot (field 22 of /proc/PID/stat)
	offStart = 48
	offBoot  = 56 // 16 bytes: /proc/sys/kernel/random/boot_id
	OffBegin = 72 // 24 bytes: a Reading at the recording's beginning
	// events that were committed to no chunk, because there was no room for a probe or a shard
	OffDropped    = 96
	OffEnded      = 104 // 4 bytes: 1 after the writer has ended
	OffBeside     = 108 // 4 bytes: 1 if another process recorded to the path when this one began
	offExecutable = 112 // 2 bytes for the length, and the path of the executable
	// OffLatest is the sequence number of the latest chunk that has become readable, or 0. A writer
	// stores it before it commits the chunk's first record. If two shards begin chunks at the same
	// time, it may be the number of either, but it never has an earlier value again. A recording of
	// minor version 0 may have the end of a path there. Writers use the chunks in their order, and
	// none again before all were used: the chunk with a sequence number n that is at most OffChunks
	// has the index n-1.
	OffLatest = HeadBytes - 8
)

// latestMinor is the first minor version with OffLatest. Before minor version 2, the word at
// OffDroppedBefore is 0.
const latestMinor = 1

// The offsets of a chunk's head.
const (
	// the sequence number in the recording, from 1 on, or 0 while the chunk is empty or being
	// reused
	OffSequence  = 0
	OffShard     = 8  // 4 bytes
	OffProcess   = 12 // 4 bytes: the PID, or 0 if the origins of the records have it
	OffBefore    = 16 // the number of the shard's events before this chunk
	OffReading   = 24 // 24 bytes: a Reading when the chunk was begun
	OffCommitted = 48 // the size of the records
	// OffDroppedBefore is the number at OffDropped when the chunk was begun. The difference between
	// two chunks is the number of events that were committed to no chunk between their readings.
	OffDroppedBefore = 56
)
