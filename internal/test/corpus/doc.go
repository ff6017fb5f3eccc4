//go:build linux

// Package corpus reads the probes of other people's programs, of every architecture, and
// compares what package sdt makes of them with what binutils and bcc do.
//
// The programs are those of Debian's packages: see package debian.
package corpus
