package recorder

import "unsafe"

// Observe appends the fires of a *stapsdt.Provider until stop is called. Package stapsdt, which
// this package must not import, has it: a program that does not call it does not contain what it
// needs.
func Observe(provider unsafe.Pointer, w *Writer) (stop func())
