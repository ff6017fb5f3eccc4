package recorder

import (
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Package stapsdt, which this package must not import, has what follows: a program that does not call it
// does not contain what it needs. A provider is a *stapsdt.Provider.

// Observe appends the fires of a provider, or of those of its probes for whose names only returns true,
// until stop is called. A nil only stands for all probes.
func Observe(provider unsafe.Pointer, w *Writer, only func(probe string) bool) (stop func())

// Probes describes the probes of a provider.
func Probes(provider unsafe.Pointer) []*recording.Probe

// Defined calls f with each provider that is defined from now on, until stop is called. f may be called
// by several goroutines at once.
func Defined(f func(provider unsafe.Pointer)) (stop func())
