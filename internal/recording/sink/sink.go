// Package sink is the interface between package stapsdt and recordings: Record takes a Sink, which
// package recorder implements. A program that records nothing therefore contains no recorder.
package sink

import (
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// Record appends the fires of some providers to a recording until stop is called, or of all
// providers of the process, including those that are defined later, if providers is nil or empty. A
// fire that begins after stop has returned is not appended. providers is a []*stapsdt.Provider.
//
// Package stapsdt, which this package cannot import, has its body: the linker leaves it out of a
// program that records nothing, and no code runs before main.
func Record(s Sink, providers any) (stop func())

// Sink is a recording to which fires are appended. It is a pointer.
type Sink interface {
	// Probe returns a Probe that appends the fires of a probe, or nil if the recording does not
	// have the probe. named reports whether the description is final: the arguments of a probe may
	// get their names later.
	Probe(describe func() (p *recording.Probe, named bool)) Probe
}

// Probe appends the fires of a probe to a recording. Neither method keeps the memory that its
// parameter refers to.
type Probe interface {
	// Append appends a fire. args is the address of as many pointers as the probe has arguments: to
	// variables of the arguments' types, in which a []byte is read as a string.
	Append(args unsafe.Pointer)
	// AppendConverted appends a fire whose arguments were converted for tracers and observers.
	AppendConverted(a *words.Arguments)
}
