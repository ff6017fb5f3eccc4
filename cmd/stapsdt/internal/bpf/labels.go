//go:build linux

package bpf

// Labels that several parts of a section jump to. A section ends with what end and put write:
//
//	again:    …                   what there is to do at an event
//	          jump exit
//	put:      update open         only a start has these three
//	          count the start, or: jump full
//	          jump exit
//	rejected, unevaluated: jump take, which removes an operation    only an end has these two
//	full:     count the start that had no room; jump exit
//	unpaired: count the end that has no start; jump exit    only an end has this one
//	fault:    count an event that could not be evaluated; jump exit
//	lost:     count one that had no room; jump exit
//	foreign:  count one that no goroutine has fired
//	exit:     return
//
// again is where a section begins again when memory that it reads has been fetched. A start that cannot be evaluated is open all the same: unevaluated counts it and goes to put.
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
)
