// Package function finds the functions of a Go program that can be probed: their names, their
// places in the source, the instructions at which a call and a return are seen, and where their
// arguments and results are then.
//
// It reads files of other users, within limits, and runs nothing.
package function
