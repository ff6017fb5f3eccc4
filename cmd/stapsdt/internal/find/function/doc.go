//go:build linux

// Package function finds the functions of a Go program that can be probed: their names, their
// places in the source, the instructions at which a call and a return are seen, and the places
// of their arguments and results at these instructions.
//
// It reads files of other users, within limits, and executes none of them.
package function
