//go:build linux

// Package source finds the functions that compilers have inlined at an address of a program, and
// the position in the source of each, in DWARF 2 to 5.
//
// Files belong to traced programs, which may be hostile, and can have gigabytes of DWARF. The
// package reads only the first entries of all units, and then the units that contain wanted
// addresses. debug/dwarf needs all sections in memory, allocates each entry, and creates tables
// of lines that are as large as a file claims, so that a file could end the command.
package source
