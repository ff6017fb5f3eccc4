// Package command tests the command stapsdt, which it builds and runs as users do, on
// programs whose probes it fires: one in Go, one in C with <sys/sdt.h>, and those of others.
package command
