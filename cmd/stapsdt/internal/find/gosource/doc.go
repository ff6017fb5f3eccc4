// Package gosource finds the source of Go programs, and reads in it which variables are assigned
// more than once.
package gosource
