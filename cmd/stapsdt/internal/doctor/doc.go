//go:build linux

// Package doctor says why stapsdt sees no event of a process. [Read] collects the facts about the
// kernel, the rights of this process, the process to trace and its images. [Diagnose] runs a table
// of checks on the facts and touches nothing else, so that tests can give it the facts of other
// systems. docs/nothing-shows.md has the causes that concern other tracers only.
package doctor
