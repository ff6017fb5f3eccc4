//go:build linux

package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
)

// Totals are the numbers of a kind of operation.
type Totals struct {
	// Starts and Pairs are the numbers of starts, and of those that have found their end.
	Starts, Pairs uint64
	// Ends is the number of ends without a start.
	Ends uint64
	// Full is the number of starts for which there was no room.
	Full uint64
}

// The offsets in a Totals, and its size.
const (
	TotalStarts = 8 * iota
	TotalPairs
	TotalEnds
	TotalFull
	TotalsSize
)

// An open operation has the numbers of its kind and of the process as the first word of
// its key, which its Key follows. Its value begins with these:
const (
	OpenTime   = 0  // CLOCK_MONOTONIC, in nanoseconds, or 0 if a condition is false
	OpenThread = 8  // the thread, and then the process
	OpenKnown  = 16 // a bit for each of Open that could be evaluated
	OpenOwner  = 24 // whose the process is, if the room is divided
	OpenHeader = 32
)

// MaxKnown is the number of bits of OpenKnown that an instruction can set.
const MaxKnown = 31

// ReadTotals reads the numbers of a kind of operation.
func ReadTotals(totals *ebpf.Map, kind uint32) (sum Totals, err error) {
	var each []Totals
	if err := totals.Lookup(kind, &each); err != nil {
		return sum, fmt.Errorf("read totals: %w", err)
	}
	for _, t := range each {
		sum.Starts += t.Starts
		sum.Pairs += t.Pairs
		sum.Ends += t.Ends
		sum.Full += t.Full
	}
	return sum, nil
}

// Open is an operation that has started and not ended.
type Open struct {
	Kind uint32
	// Since is the time of its start on CLOCK_MONOTONIC, or 0 if a condition was false then.
	Since    time.Duration
	PID, TID int // of the start
	// Key is to be read by the Key of a bpf.Latency, and Value by the items of its Open.
	Key, Value []byte

	// Owner is whose the process is, if the room is divided.
	Owner uint64

	known uint64
}

// Known reports whether the value has the i-th of Latency.Open.
func (o *Open) Known(i int) bool { return i >= MaxKnown || o.known&(1<<i) != 0 }

// ReadOpen reads the operations that are open. While events happen, some may be missing.
func ReadOpen(open *ebpf.Map) (all []Open, err error) {
	seen := map[string]bool{}
	var key, value []byte
	entries := open.Iterate()
	for entries.Next(&key, &value) {
		if seen[string(key)] { // the iteration has begun again
			continue
		}
		seen[string(key)] = true
		thread := binary.NativeEndian.Uint64(value[OpenThread:])
		since := time.Duration(binary.NativeEndian.Uint64(value[OpenTime:]))
		if since != 0 {
			since = At(uint64(since))
		}
		all = append(all, Open{
			Kind:  uint32(binary.NativeEndian.Uint64(key) >> 32),
			Since: since,
			PID:   int(thread >> 32), TID: int(uint32(thread)),
			Key: bytes.Clone(key), Value: bytes.Clone(value),
			Owner: binary.NativeEndian.Uint64(value[OpenOwner:]),
			known: binary.NativeEndian.Uint64(value[OpenKnown:]),
		})
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("read open operations: %w", err)
	}
	return all, nil
}

// Seen records that a process has started an operation with these values of Open.
type Seen struct {
	PID int
	// Value is to be read by the items of Open, and Key is that of the table.
	Value, Key []byte
}

// ReadSeen reads a table. While events happen, some entries may be missing.
func ReadSeen(seen *ebpf.Map) (all []Seen, err error) {
	found := map[string]bool{}
	var key []byte
	var one uint64
	entries := seen.Iterate()
	for entries.Next(&key, &one) {
		if found[string(key)] { // the iteration has begun again
			continue
		}
		found[string(key)] = true
		value := append(make([]byte, OpenThread), key...)
		all = append(all, Seen{PID: int(binary.NativeEndian.Uint64(key)), Value: value, Key: bytes.Clone(key)})
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("read the labels of operations: %w", err)
	}
	return all, nil
}
