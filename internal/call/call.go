// Package call tests and enters sites: it moves words into the registers and the
// stack slots where a probe's note says that its arguments are, and calls the
// site on the goroutine's own stack. Why the Go runtime permits that is argued in
// RATIONALE.md.
//
// It is a package of its own because one that uses cgo can hold no Go assembly.
package call

// MaxRegs is how many words Few passes, and Max how many Many does.
const (
	MaxRegs = 6
	Max     = 12
)
