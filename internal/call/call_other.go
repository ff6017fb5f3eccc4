//go:build !(386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x)

package call

import "unsafe"

// Idle stands for a site where there are none.
const Idle = 0

// No byte is a tracer's.
const Mask, Bits = 0, 1

// Few is never reached: no probe is enabled.
func Few(at *unsafe.Pointer, words *[MaxRegs]uint64) (called bool) { return false }

// Many is never reached.
func Many(at *unsafe.Pointer, words *[Max]uint64) (called bool) { return false }
