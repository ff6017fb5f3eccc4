//go:build linux

package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"

	"github.com/cilium/ebpf"
)

// The offsets in a query.Totals, and its size.
const (
	TotalStarts = 8 * iota
	TotalPairs
	TotalEnds
	TotalFull
	TotalsSize
)

// The key of an open operation begins with a word for the ID of its kind and the PID, followed by
// its Key. Its value begins with these:
const (
	OpenTime   = 0  // CLOCK_MONOTONIC, in nanoseconds, or 0 if a condition is false
	OpenThread = 8  // the thread, followed by the process
	OpenKnown  = 16 // a bit for each value of Open that could be evaluated
	OpenOwner  = 24 // the owner of the process, if the room is divided
	OpenHeader = 32
)

// MaxKnown is the number of bits of OpenKnown that an instruction can set.
const MaxKnown = 31

// ReadTotals reads the totals of a kind of operation.
func ReadTotals(totals *ebpf.Map, kind uint32) (sum query.Totals, err error) {
	words, err := sumWords(totals, kind)
	if err != nil {
		return sum, fmt.Errorf("read totals: %w", err)
	}
	return query.Totals{
		Starts: words[TotalStarts/8], Pairs: words[TotalPairs/8],
		Ends: words[TotalEnds/8], Full: words[TotalFull/8],
	}, nil
}

// Open is an operation that has started and not ended.
type Open struct {
	Kind uint32
	// Since is the time of its start on CLOCK_MONOTONIC, or 0 if a condition was false then.
	Since    time.Duration
	PID, TID int // the process and the thread of the start
	// Key is read with the Key of a bpf.Latency, and Value with the items of its Open.
	Key, Value []byte

	// Owner is the owner of the process, if the room is divided.
	Owner uint64

	known uint64
}

// Known reports whether the value has the i-th item of Latency.Open.
func (o *Open) Known(i int) bool { return i >= MaxKnown || o.known&(1<<i) != 0 }

// ReadOpen reads the open operations. While events happen, some may be missing.
func ReadOpen(open *ebpf.Map) (all []Open, err error) {
	err = each(open, func(key, value []byte) {
		word := func(at int) uint64 { return binary.NativeEndian.Uint64(value[at:]) }
		o := Open{
			Kind: uint32(binary.NativeEndian.Uint64(key) >> 32),
			PID:  int(word(OpenThread) >> 32), TID: int(uint32(word(OpenThread))),
			Key: bytes.Clone(key), Value: bytes.Clone(value),
			Owner: word(OpenOwner), known: word(OpenKnown),
		}
		if since := word(OpenTime); since != 0 {
			o.Since = At(since)
		}
		all = append(all, o)
	})
	if err != nil {
		return nil, fmt.Errorf("read open operations: %w", err)
	}
	return all, nil
}

// NewOpen returns an operation with room for its key and value, for Insert.
func NewOpen(open *ebpf.Map) *Open {
	return &Open{Key: make([]byte, open.KeySize()), Value: make([]byte, open.ValueSize())}
}

// SetKnown records that the value has the i-th item of Latency.Open.
func (o *Open) SetKnown(i int) {
	if i < MaxKnown {
		o.known |= 1 << i
	}
}

// Insert adds the operation to the open ones, unless one with its key is open, and reports
// whether it did so.
func (o *Open) Insert(open *ebpf.Map) (bool, error) {
	put := func(b []byte, at int, word uint64) { binary.NativeEndian.PutUint64(b[at:], word) }
	put(o.Key, 0, uint64(o.Kind)<<32|uint64(uint32(o.PID)))
	put(o.Value, OpenThread, uint64(o.PID)<<32|uint64(uint32(o.TID)))
	put(o.Value, OpenKnown, o.known)
	if o.Since != 0 {
		put(o.Value, OpenTime, kernelTime(o.Since))
	}
	err := open.Update(o.Key, o.Value, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		return false, nil
	}
	return err == nil, err
}

// Remove removes the operation that Insert has added, and reports whether it was still open.
func (o *Open) Remove(open *ebpf.Map) (bool, error) {
	value, err := open.LookupBytes(o.Key)
	if err != nil || value == nil || !bytes.Equal(value, o.Value) {
		return false, err
	}
	err = open.Delete(o.Key)
	if errors.Is(err, ebpf.ErrKeyNotExist) { // it has ended meanwhile
		return false, nil
	}
	return err == nil, err
}

// Seen records that a process has started an operation with these values of Open.
type Seen struct {
	PID int
	// Value is read with the items of Open, and Key is the key in the table.
	Value, Key []byte
}

// ReadSeen reads a table. While events happen, some entries may be missing.
func ReadSeen(seen *ebpf.Map) (all []Seen, err error) {
	err = each(seen, func(key, _ []byte) {
		all = append(all, Seen{
			PID:   int(binary.NativeEndian.Uint64(key)),
			Value: append(make([]byte, OpenThread), key...), Key: bytes.Clone(key),
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the labels of operations: %w", err)
	}
	return all, nil
}
