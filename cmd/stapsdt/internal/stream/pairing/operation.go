package pairing

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
)

// Operation is an operation that has started and not ended.
type Operation struct {
	File  *replay.File
	Kind  *Kind
	Since time.Duration // by CLOCK_MONOTONIC
	// PID is the process of the start. Events of a page have neither TID nor Goroutine.
	PID, TID  uint32
	Goroutine uint64
	Key       Key
	// Parent is the value of the start's argument with this name, or 0.
	Parent  uint64
	Details []evaluate.Value
	Columns *Columns // names the values of Details

	// By are the values of the pairing's By that were evaluated at the start.
	By []evaluate.Value
	// Note holds the consumer's own data for the operation.
	Note any

	selected bool
	unmet    bool // a condition that belongs to the end is false at the start
	late     bool // only the end can evaluate a condition
	past     bool // its start was recorded before its process was watched
}

// ID identifies a span: its key is a number that is unique in its process.
type ID struct {
	File *replay.File
	PID  uint32
	Key  uint64
}

// ID returns the ID of the operation, if it is a span.
func (o *Operation) ID() ID { return ID{o.File, o.PID, o.Key.ID()} }

// ParentID returns the ID of the span that the operation is a part of.
func (o *Operation) ParentID() ID { return ID{o.File, o.PID, o.Parent} }

// JSONOpen is the object of an open operation, for how long it has been open.
type JSONOpen struct {
	Nanoseconds time.Duration     `json:"nanoseconds" doc:"time since its start, in nanoseconds"`
	Unknown     bool              `json:"end_may_be_lost,omitempty" doc:"whether it may have ended"`
	PID         uint32            `json:"pid" doc:"process"`
	TID         uint32            `json:"tid,omitempty" doc:"thread"`
	Goroutine   uint64            `json:"goroutine,omitempty" doc:"ID of the goroutine"`
	Key         json.RawMessage   `json:"key" doc:"an array of several; what start and end have in common"`
	By          render.JSONObject `json:"by" doc:"values of --by"`
	Args        render.JSONObject `json:"args" doc:"arguments"`
}

// JSON describes the operation, which has not ended, without its kind and its parent.
func (o *Operation) JSON() JSONOpen {
	j := JSONOpen{
		Nanoseconds: o.For(), Unknown: !o.IsOpen(), PID: o.PID, TID: o.TID, Goroutine: o.Goroutine,
		Key: o.Key.ForJSON(),
	}
	for i, v := range o.Details {
		if v.Item == nil {
			continue
		}
		object := &j.Args
		if i < o.Columns.By {
			object = &j.By
		}
		object.Names = append(object.Names, o.Columns.Names[i])
		object.Values = append(object.Values, v.ForJSON())
	}
	return j
}

// Selected reports whether the operation meets the conditions that were evaluated at its start.
func (o *Operation) Selected() bool { return o.selected }

// Meets reports whether an operation that has not ended meets all conditions, if its start decides
// that.
func (o *Operation) Meets() (meets, decided bool) {
	meets = o.selected && !o.unmet
	return meets, !meets || !o.late
}

// For returns the time for which an operation had been open at the end of its recording.
func (o *Operation) For() time.Duration { return max(o.File.Last()-o.Since, 0) }

// IsOpen reports whether an operation without an end is known to be open: the recording has all
// events since it began.
func (o *Operation) IsOpen() bool { return o.File.Keeps(o.Since) }

// pastSkew exceeds the difference between the times that the two sources state for an event whose
// process was not interrupted in it.
const pastSkew = time.Millisecond

// isRepeated reports whether an event of a file starts an operation again that a recorded event
// has started.
func (o *Operation) isRepeated(f *replay.File) bool {
	return o.past && !f.InPast() && o.Since >= f.PastBegan()
}

// isAfter reports whether the recorded start of an operation is later than the end that seems to be
// its own: the end is of an operation with the same key before it.
func (o *Operation) isAfter(end time.Duration, f *replay.File) bool {
	return o.past && !f.InPast() && end < o.Since-pastSkew
}

// SortOpen sorts operations without an end: those known to be open come first, the longest open
// first among them.
func SortOpen(all []*Operation) {
	unknown := func(o *Operation) int {
		if o.IsOpen() {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b *Operation) int {
		return cmp.Or(
			unknown(a)-unknown(b), -cmp.Compare(a.For(), b.For()), cmp.Compare(a.Since, b.Since),
			cmp.Compare(a.Key.ID(), b.Key.ID()),
		)
	})
}

// Outcome describes the effect of an event: it starts an operation, ends one, or does neither.
type Outcome struct {
	// Started is the operation that has started, or nil.
	Started *Operation
	// Replaced is the open operation whose key the started one has taken, or nil. It cannot end.
	Replaced *Operation
	// Ended is the operation that has ended, if HasEnded is set.
	Ended    Ended
	HasEnded bool
	// Stray means that the event is an end whose start was not seen.
	Stray bool
}

// Ended is an operation that has ended. By are the values of the pairing's By.
type Ended struct {
	Start *Operation
	Took  time.Duration
	By    []evaluate.Value
	// Selected is false if a condition of the pairing is false. Such operations are only returned
	// if Plan.All is set.
	Selected bool
}
