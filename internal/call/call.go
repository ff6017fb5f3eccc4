// Package call tests and enters sites: it moves words into the registers and the stack slots
// that a probe's note names, and calls the site on the goroutine's own stack. RATIONALE.md
// explains why the Go runtime permits this.
//
// It is a package of its own because a package that uses cgo cannot contain Go assembly.
package call

// MaxRegs is the number of words that WithRegisters passes, and MaxArgs the number that
// WithStack passes.
const (
	MaxRegs = 6
	MaxArgs = 12
)
