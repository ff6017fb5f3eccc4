//go:build !linux

package proc

import "os"

// Getenv is os.Getenv. This system has nothing that the variables could turn on.
func Getenv(name string) string { return os.Getenv(name) }

// Read returns nothing: this system has no such files.
func Read(string, int) []byte { return nil }
