//go:build linux

// Package corpus reads the probes of other people's programs, of every architecture, and
// compares what package sdt makes of them with what binutils, libbpf and bcc do.
//
// The programs are those of Debian's packages, which are downloaded when a test asks for
// them and kept in $STAPSDT_CACHE, by default ~/.cache/stapsdt. Nothing in them is run.
package corpus
