// Package dlang reads the definitions of providers in the D language of DTrace, and writes
// them as typed probes in Go.
//
// It uses the providers of a D file, the types that the file defines, and simple macros. It
// skips pragmas, inlines and translators. Anything that a Go probe cannot express is an error
// with its position in the file.
package dlang
