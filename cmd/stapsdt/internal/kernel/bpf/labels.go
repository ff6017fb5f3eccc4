//go:build linux

package bpf

// Labels that several parts of a section jump to. A section ends with the code that end and put
// emit:
//
//	again:    …                   handle the event
//	          jump exit
//	put:      update open         only a start has these three
//	          count the start, or: jump full
//	          jump exit
//	rejected, unevaluated: jump take, which removes an operation    only an end has these two
//	full:     count the start that had no room; jump exit
//	unpaired: count the end that has no start; jump exit    only an end has this one
//	stackless: remove the operation of the key; jump lost     only a start that keeps its stack
//	take:     remove the operation of an event with Started, which goes there in place of exit
//	fault:    count an event that could not be evaluated; jump exit
//	lost:     count an event that had no room; jump exit
//	foreign:  count an event that no goroutine has fired
//	exit:     return
//
// A section restarts at again after memory was fetched. A start that cannot be evaluated is opened
// too: unevaluated counts it and jumps to put.
const (
	labelAgain       = "again"
	labelExit        = "exit"
	labelFault       = "fault"
	labelLost        = "lost"
	labelForeign     = "foreign"
	labelPut         = "put"
	labelFull        = "full"
	labelTake        = "take"
	labelRejected    = "rejected"
	labelUnevaluated = "unevaluated"
	labelUnpaired    = "unpaired"
	labelStackless   = "stackless"
)
