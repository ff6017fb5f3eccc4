//go:build linux

// Package clean removes the files of images that no process has mapped.
//
// A process can have mapped a file where this one does not see it: in another PID namespace,
// or because /proc shows no processes of others. It can also be about to map it: it has
// opened the file by its name and compares it. Looking at /proc is therefore not enough. The
// package asks the kernel itself, which grants a write lease on a file only while no other
// process has it open, and what is mapped is open. Before that, the file is moved aside within its
// directory, so that no process opens it meanwhile and no process has to wait for the lease.
package clean
