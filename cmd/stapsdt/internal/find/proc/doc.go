//go:build linux

// Package proc reads the kernel's data about processes in /proc, and watches which of them map
// files.
package proc
