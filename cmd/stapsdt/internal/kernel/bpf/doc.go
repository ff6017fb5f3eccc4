// Package bpf generates the BPF programs that run at the sites of probes.
//
// A program is specialized for the operands of a probe: it reads the arguments from the
// registers or the memory that the note names, evaluates a filter, and then writes an event
// to a ring buffer, or counts. Sites with the same operands share a program.
//
// # Registers and stack
//
// R6 is the context, struct pt_regs. R7 is the record or the value of a map that is being
// written, R8 the time of the event, and R9 the set of its values that could not be read.
// Expressions compute in R0 to R5, and keep intermediate results and variables on the stack.
// Another thread may use the same stack, so a program is not preempted while it uses the stack
// (see RATIONALE.md).
//
// # Memory
//
// Reading a traced program's memory does not wait for a page that is not resident. From Linux
// 6.0, a program that may sleep then lets the kernel fetch the page, and begins again. Otherwise
// the value is unreadable, which is not the same as empty or 0.
package bpf
