//go:build linux

// Package debugfile finds the file with the debug information that was separated from a program or
// library, in the places in which gdb looks. A file is used only if the program's GNU build ID or
// the checksum in its .gnu_debuglink shows that it belongs to the program.
//
// Such files lie where any user may put them, so nothing in them is trusted.
package debugfile
