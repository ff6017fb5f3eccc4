//go:build linux

// Package proc reads what the kernel says of processes in /proc, and hears which of them map files.
package proc
