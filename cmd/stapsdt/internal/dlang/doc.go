// Package dlang reads the definitions of providers in the D language of DTrace, and writes
// them as typed probes in Go.
//
// Of a D file it uses the providers, the types that the file defines, and simple macros. It
// skips pragmas, inlines and translators. Everything that a probe in Go cannot be is an
// error with its place in the file.
package dlang
