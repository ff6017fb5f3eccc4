package replay

import (
	"time"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// past is the state of a File whose process was recorded before its events came from another
// source: the recorded events come first. They and the events of the source overlap, because
// attaching takes a time: the start of an operation may come from both.
type past struct {
	began time.Duration // when attaching began, by CLOCK_MONOTONIC
	sure  time.Duration // operations that began earlier may have ended
	reads bool          // the recorded events are being delivered
	// probes are those of the recorded events.
	probes []*recording.Probe
}

// BeginPast begins the delivery of recorded events. began is a time of CLOCK_MONOTONIC before which
// the other source had delivered nothing.
func (f *File) BeginPast(began time.Duration) { f.past = past{began: began, reads: true} }

// EndPast ends the delivery of recorded events. The ends of operations that began before sure
// may be missing. probes are the probes of the recording, which Recorded returns too.
func (f *File) EndPast(sure time.Duration, probes []*recording.Probe) {
	f.past.reads, f.past.sure, f.past.probes = false, sure, probes
}

// InPast reports whether the event that is being delivered was recorded before its process was
// watched. It ends operations, but none that was looked at.
func (f *File) InPast() bool { return f != nil && f.past.reads }

// PastBegan returns the time before which the other source had delivered nothing.
func (f *File) PastBegan() time.Duration { return f.past.began }
