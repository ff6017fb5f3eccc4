//go:build linux

// Package probes finds the probes that a command or a rule selects: in the files that it names, and
// in the files that processes have mapped.
package probes
