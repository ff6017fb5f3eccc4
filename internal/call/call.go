//go:build amd64 || arm64

// Package call enters a site: it moves words into the registers and the stack
// slots where a probe's note says that its arguments are, and calls the site on
// the goroutine's own stack. Why the Go runtime permits that is argued in
// RATIONALE.md.
//
// It is a package of its own because one that uses cgo can hold no Go assembly.
package call

import "unsafe"

// MaxRegs is how many words Few passes, and Max how many Many does.
const (
	MaxRegs = 6
	Max     = 12
)

// Few calls the site with up to six arguments, all in registers.
//
// SAFETY: site is an address in a mapping that holds a site, or a return where
// one was: a leaf of a nop and a return, which touches neither registers nor
// memory. The caller keeps the mapping alive until Few has returned.
//
//go:noescape
func Few(site unsafe.Pointer, words *[MaxRegs]uint64)

// Many calls the site with up to twelve arguments, those beyond the registers
// on the stack. What Few says of its site holds for it.
//
//go:noescape
func Many(site unsafe.Pointer, words *[Max]uint64)
