//go:build linux

// Package corpus reads the probes of other people's programs, of every architecture, and
// compares what package sdt makes of them with what binutils and bcc do.
//
// Its testdata has the notes of programs in Debian's packages, and what readelf printed of them.
package corpus
