package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ClockKind is the kind of a recording's clock.
type ClockKind uint32

// The clocks.
const (
	// Monotonic counts nanoseconds of CLOCK_MONOTONIC.
	Monotonic ClockKind = 1
	// Counter is a counter of the processor that never stops or changes its rate while the
	// machine runs: the TSC on amd64. Readings relate it to the other clocks.
	Counter ClockKind = 2
)

// Reading is one moment by three clocks: the recording's, CLOCK_MONOTONIC and CLOCK_REALTIME,
// these two in nanoseconds.
type Reading struct {
	Ticks     uint64
	Monotonic int64
	Realtime  int64
}

// Put encodes the reading.
func (r Reading) Put(b []byte) {
	binary.LittleEndian.PutUint64(b, r.Ticks)
	binary.LittleEndian.PutUint64(b[8:], uint64(r.Monotonic))
	binary.LittleEndian.PutUint64(b[16:], uint64(r.Realtime))
}

func readingAt(b []byte) Reading {
	return Reading{
		Ticks:     binary.LittleEndian.Uint64(b),
		Monotonic: int64(binary.LittleEndian.Uint64(b[8:])),
		Realtime:  int64(binary.LittleEndian.Uint64(b[16:])),
	}
}

// Head is the beginning of a recording.
type Head struct {
	Major, Minor uint16
	Clock        ClockKind
	TableBytes   uint64 // a multiple of 8
	TableUsed    uint64
	Chunks       uint64
	Shards       uint32
	PID          uint32
	Start        uint64   // when the process started, in ticks since the boot
	Boot         [16]byte // the boot's ID, or zeros if it is unknown
	Reading      Reading
	Dropped      uint64 // events that no shard has committed
	Ended        bool   // ended by its writer
	Executable   string
}

// ErrVersion is the error for a recording of another major version.
var ErrVersion = errors.New("the recording has another version of the format")

// ErrCorrupt is the error for bytes that no writer writes.
var ErrCorrupt = errors.New("this is not a recording, or it is damaged")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// Encode returns the head's bytes. An executable's path that is too long loses its beginning.
func (h *Head) Encode() []byte {
	b := make([]byte, HeadBytes)
	copy(b, Magic)
	le := binary.LittleEndian
	le.PutUint16(b[offMajor:], h.Major)
	le.PutUint16(b[offMinor:], h.Minor)
	le.PutUint32(b[offClock:], uint32(h.Clock))
	le.PutUint64(b[offTableBytes:], h.TableBytes)
	le.PutUint64(b[OffTableUsed:], h.TableUsed)
	le.PutUint64(b[OffChunks:], h.Chunks)
	le.PutUint32(b[offShards:], h.Shards)
	le.PutUint32(b[OffPID:], h.PID)
	le.PutUint64(b[offStart:], h.Start)
	copy(b[offBoot:], h.Boot[:])
	h.Reading.Put(b[OffBegin:])
	le.PutUint64(b[OffDropped:], h.Dropped)
	if h.Ended {
		b[OffEnded] = 1
	}
	path := h.Executable
	path = path[max(0, len(path)-(OffLatest-offExecutable-2)):]
	le.PutUint16(b[offExecutable:], uint16(len(path)))
	copy(b[offExecutable+2:], path)
	return b
}

// DecodeHead decodes a head and checks that it can be one.
func DecodeHead(b []byte) (*Head, error) {
	if len(b) < HeadBytes || string(b[:len(Magic)]) != Magic {
		return nil, corrupt("it does not begin like one")
	}
	le := binary.LittleEndian
	h := &Head{
		Major:      le.Uint16(b[offMajor:]),
		Minor:      le.Uint16(b[offMinor:]),
		Clock:      ClockKind(le.Uint32(b[offClock:])),
		TableBytes: le.Uint64(b[offTableBytes:]),
		TableUsed:  le.Uint64(b[OffTableUsed:]),
		Chunks:     le.Uint64(b[OffChunks:]),
		Shards:     le.Uint32(b[offShards:]),
		PID:        le.Uint32(b[OffPID:]),
		Start:      le.Uint64(b[offStart:]),
		Boot:       [16]byte(b[offBoot:]),
		Reading:    readingAt(b[OffBegin:]),
		Dropped:    le.Uint64(b[OffDropped:]),
		Ended:      b[OffEnded] != 0,
	}
	if h.Major != Major {
		return nil, fmt.Errorf("%w: %d.%d, but this program reads %d", ErrVersion, h.Major, h.Minor, Major)
	}
	switch length := int(le.Uint16(b[offExecutable:])); {
	case h.Clock != Monotonic && h.Clock != Counter:
		return nil, corrupt("it has the clock %d", h.Clock)
	case h.TableBytes > MaxTableBytes || h.TableBytes%8 != 0 || h.TableUsed > h.TableBytes ||
		h.TableUsed%8 != 0:
		return nil, corrupt("%d of %d bytes of its table are in use", h.TableUsed, h.TableBytes)
	case h.Chunks > maxChunks:
		return nil, corrupt("it has %d chunks", h.Chunks)
	case h.Shards == 0 || h.Shards > MaxShards:
		return nil, corrupt("it has %d shards", h.Shards)
	case length > HeadBytes-offExecutable-2:
		return nil, corrupt("the executable's path has %d bytes", length)
	default:
		h.Executable = string(b[offExecutable+2:][:length])
	}
	return h, nil
}

// maxChunks is the largest number of chunks: 16 GB.
const maxChunks = 1 << 18

// ChunkOffset returns the offset of a chunk.
func (h *Head) ChunkOffset(i uint64) int64 {
	return HeadBytes + int64(h.TableBytes) + int64(i)*ChunkBytes
}

// Size returns the size of the recording.
func (h *Head) Size() int64 { return h.ChunkOffset(h.Chunks) }
