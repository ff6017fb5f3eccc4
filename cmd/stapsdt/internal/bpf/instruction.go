//go:build linux

package bpf

import (
	"runtime"
	"slices"
)

// Instruction is the kind of the instruction at a site, by the cost of an event there. The nops of notes have the names
// of package image.
type Instruction string

// The instructions at which functions are probed.
const (
	// Push is the push after the stack check.
	Push Instruction = "push"
	// Branch is the branch of the stack check on arm64.
	Branch Instruction = "branch"
	// Return is the instruction at which a function returns.
	Return Instruction = "return"
	// Entry is the first instruction of a function, and stands for all other instructions.
	Entry Instruction = "entry"
)

// stepped lists the instructions of functions that the kernel single-steps: it executes a copy, and gets a debug trap
// after it. It emulates the others.
var stepped = map[string][]Instruction{
	"amd64": {Return, Entry},
	"arm64": {Entry},
}

// Stepped reports whether the kernel single-steps the instruction. It reports false for nops, because that depends on
// the kernel.
func (i Instruction) Stepped() bool { return slices.Contains(stepped[runtime.GOARCH], i) }

// Instruction returns the kind of the instruction at the sites of a probe.
func (p *Probe) Instruction() Instruction {
	switch {
	case p.Function == nil && p.Nop != "":
		return Instruction(p.Nop)
	case p.Function == nil:
		return Entry
	case p.Function.Return:
		return Return
	case p.Function.Push:
		return Push
	case p.Restarts:
		return Branch
	}
	return Entry
}
