//go:build (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && !stapsdt_noload

package call

import "unsafe"

// WithRegisters calls the site whose address is *at with up to six arguments if the site is
// patched, and reports whether it was. The arguments are in registers on architectures that
// have enough for them.
//
// WithRegisters loads the address, tests the site and calls it in assembly, where a goroutine
// is never preempted. So once the world has been stopped after *at was changed, no goroutine is
// in the previous site or on its way to it.
//
// SAFETY: *at is the address of a byte that reads as idle, of a site, or of the code that
// replaced a site: leaf code of a few bytes, which returns and touches neither registers nor
// memory. The caller keeps the mapping alive until WithRegisters has returned.
//
//go:noescape
func WithRegisters(at *unsafe.Pointer, words *[MaxRegs]uint64) (called bool)

// WithStack is like WithRegisters with up to twelve arguments. Arguments that do not fit into
// registers are on the stack.
//
//go:noescape
func WithStack(at *unsafe.Pointer, words *[MaxArgs]uint64) (called bool)

// GoroutineIsG means that Goroutine returns the address of the runtime's g.
const GoroutineIsG = true

// Goroutine returns the address of the runtime's g, which identifies the calling goroutine
// until it ends.
func Goroutine() uintptr
