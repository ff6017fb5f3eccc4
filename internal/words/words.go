// Package words defines the data that a fire passes to tracers and observers: a word for each
// argument, and the copies of strings whose addresses are words.
package words

import "github.com/go-stapsdt/stapsdt/internal/call"

// Arguments holds the arguments of a fire.
type Arguments struct {
	// Words has a word for each argument. The word of a string is the address of its copy.
	Words [call.MaxArgs]uint64
	// Texts holds the copies of strings, or is nil if there are none.
	Texts *Texts
}

// Reserve reserves memory for copies of strings that have size bytes in total, with a NUL
// each. Release releases it.
func (a *Arguments) Reserve(size int) {
	if size > 0 {
		a.Texts = getTexts(size)
	}
}

// Release releases the copies after the tracer has seen them.
func (a *Arguments) Release() {
	if a.Texts != nil {
		a.Texts.put()
	}
}

// Registers returns the words of a probe that has at most call.MaxRegs arguments.
func (a *Arguments) Registers() *[call.MaxRegs]uint64 {
	return (*[call.MaxRegs]uint64)(a.Words[:])
}
