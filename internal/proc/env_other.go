//go:build !linux

package proc

import "os"

// Getenv is os.Getenv: what the variables ask for fails on this system, whoever asks for it.
func Getenv(name string) string { return os.Getenv(name) }
