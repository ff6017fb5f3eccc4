// Command stapsdt lists, traces and counts the SDT probes of any program, and exports them as
// metrics and spans: the probes of this library, of PostgreSQL, PHP, Ruby, the Java VM and of
// every other program that uses <sys/sdt.h>. It is one static file, and needs no compiler, no
// kernel headers and no debug information. Tracing takes Linux 5.8, and root or the
// capabilities that the command names.
//
//	stapsdt list -p 1234
//	stapsdt trace -p 1234 'myapp:*'
//
// See https://github.com/go-stapsdt/stapsdt/blob/main/docs/command.md.
package main
