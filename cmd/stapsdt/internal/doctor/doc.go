//go:build linux

// Package doctor says why a tracer sees no event of a process. [Read] collects the facts
// about the kernel, about the rights of this process, about the process that is to be traced
// and about its images. [Diagnose] runs a table of checks on the facts and touches nothing
// else, so that tests can give it the facts of other systems.
package doctor
