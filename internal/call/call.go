// Package call tests and enters sites: it moves words into the registers and the stack slots
// that a probe's note names, and calls the site on the goroutine's own stack. RATIONALE.md
// explains why the Go runtime permits this.
//
// It is a package of its own because a package that uses cgo cannot contain Go assembly.
package call

import (
	"sync/atomic"
	"unsafe"
)

// MaxRegs is the number of words that WithRegisters passes, and MaxArgs the number that
// WithStack passes.
const (
	MaxRegs = 6
	MaxArgs = 12
)

// Enabled is the method Enabled of a *stapsdt.Probe, for packages of this module that keep the
// probe alive themselves. The method itself keeps it alive, and takes longer.
func Enabled(probe unsafe.Pointer) bool {
	// SAFETY: the first field of a Probe is a pointer to a byte that shows whether the probe
	// is enabled. The probe keeps that byte alive.
	return *(*byte)(atomic.LoadPointer((*unsafe.Pointer)(probe)))&Mask == Bits
}
