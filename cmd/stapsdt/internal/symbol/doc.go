//go:build linux

// Package symbol finds the functions that the addresses of a stack are in: those of Go in the
// table that the runtime has too, which stripping leaves in a program, those of C in symbol
// tables, and those of just-in-time compilers in the files that these write for perf.
//
// What a process has mapped is read while it lives. The files are opened then too, so that
// their functions can be found when the process has exited.
//
// Every file and every table is that of a traced program, which may be hostile. Nothing in
// them is trusted.
package symbol
