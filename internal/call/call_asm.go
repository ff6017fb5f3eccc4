//go:build 386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x

package call

import "unsafe"

// Few calls the site whose address is at *at with up to six arguments, in
// registers where there are as many, when the site is patched. It reports
// whether it was.
//
// The address is loaded, tested and called in one go, in assembly, where a
// goroutine is never preempted. So when the world has been stopped once since
// *at was changed, no goroutine is on its way to the site that was there before,
// or in it.
//
// SAFETY: *at is the address of one byte that reads as idle, or of a site or
// what stands where one was: leaf code of a few bytes, which returns and touches
// neither registers nor memory. The caller keeps the mapping alive until Few has
// returned.
//
//go:noescape
func Few(at *unsafe.Pointer, words *[MaxRegs]uint64) (called bool)

// Many calls the site with up to twelve arguments, those beyond the registers
// on the stack. What is said of Few holds for it.
//
//go:noescape
func Many(at *unsafe.Pointer, words *[Max]uint64) (called bool)
