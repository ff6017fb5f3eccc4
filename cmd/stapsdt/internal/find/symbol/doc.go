//go:build linux

// Package symbol finds the functions at the addresses of a stack: Go functions in the runtime's
// function table, which stripping does not remove, C functions in symbol tables, inlined functions
// and lines in DWARF, and functions of just-in-time compilers in the files that these write for
// perf.
//
// The memory map of a process is read, and its files are opened, while the process is alive, so
// that their functions can be found after it has exited.
//
// All files and tables belong to traced programs, which may be hostile. Nothing in them is
// trusted.
package symbol
