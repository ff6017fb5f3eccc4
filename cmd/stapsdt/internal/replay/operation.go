//go:build linux

package replay

import (
	"cmp"
	"slices"
	"time"
)

// Operation is one that has started and not ended.
type Operation struct {
	File  *File
	Kind  int
	Since time.Duration // by CLOCK_MONOTONIC
	// PID is the process of the start, and either TID or Goroutine is not 0.
	PID, TID  uint32
	Goroutine uint64
	Key       Value
	// Parent is the argument of the start with this name, or 0.
	Parent  uint64
	Details []Value
	Columns *Columns // of Details

	// By are the values of the pairing's that were evaluated at the start.
	By []Value

	selected bool
}

// Selected reports whether it meets the conditions that were evaluated at its start.
func (o *Operation) Selected() bool { return o.selected }

// For returns how long an operation has been open when its recording ends.
func (o *Operation) For() time.Duration { return max(o.File.Last()-o.Since, 0) }

// IsOpen reports whether an operation that has no end is known to have none: the recording has all events since it began.
func (o *Operation) IsOpen() bool { return o.File.Keeps(o.Since) }

// SortOpen puts operations that have no end in order: those that are known to be open first, and of these the one that has been open longest.
func SortOpen(all []*Operation) {
	unknown := func(o *Operation) int {
		if o.IsOpen() {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b *Operation) int {
		return cmp.Or(unknown(a)-unknown(b), -cmp.Compare(a.For(), b.For()), cmp.Compare(a.Since, b.Since), cmp.Compare(a.Key.Bits, b.Key.Bits))
	})
}

// Outcome is what an event means: the start of an operation, its end, or neither.
type Outcome struct {
	// Started is the operation that has started, or nil.
	Started *Operation
	// Replaced is an operation that was open and had the key of the one that has started, or nil. It cannot end.
	Replaced *Operation
	// Ended is the operation that has ended, if HasEnded.
	Ended    Ended
	HasEnded bool
}

// Ended is an operation that has ended. By are the values of the pairing's.
type Ended struct {
	Kind  int
	Start *Operation
	Took  time.Duration
	By    []Value
	// Selected is false if a condition of the pairing's is. Such operations are only returned if the plan has All.
	Selected bool
}
