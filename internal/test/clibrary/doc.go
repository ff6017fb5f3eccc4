// Package clibrary tests what programs with the C library record and show their watchers: package recording
// and the command read it.
package clibrary
