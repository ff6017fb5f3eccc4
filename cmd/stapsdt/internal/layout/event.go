//go:build linux

package layout

// The header of an event's record. The items follow it.
const (
	EventTime    = 0  // CLOCK_MONOTONIC, in nanoseconds
	EventID      = 8  // the ID of the probe; nothing is in the next 4 bytes
	EventPID     = 16 // the thread, followed by the process
	EventComm    = 24 // the name of the thread
	EventMissing = 40 // the set of items that could not be read
	EventHeader  = 48
)

// CommSize is the size of the name of a thread.
const CommSize = 16

var _ [CommSize]byte = [EventMissing - EventComm]byte{}
