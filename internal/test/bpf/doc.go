//go:build linux && (amd64 || arm64)

// Package bpf attaches BPF programs to many probe sites of a file at once, and tells what they saw.
//
// A [Recorder] leaves an event of each hit: the registers, the stack, and the bytes of strings, for tests that compare
// arguments. A [Counter] counts the hits of windows, and adds up their arguments, and keeps no events: for tests that fire
// more than anybody could read. Neither loses a hit: a recorder's ring may be full, which its reader then notices.
//
// The programs are written with an assembler, so that no compiler is needed, and attached by uprobe_multi, which needs
// root and Linux 6.6. They may sleep, so that reading the traced program's memory cannot fail because a page is not
// there just now. Everything is seen in every process that maps the file.
package bpf
