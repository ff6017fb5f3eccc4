//go:build arm64 || ppc64le || riscv64

package barrier

// Load orders the loads before it before the loads after it.
func Load()

// Store orders the stores before it before the stores after it.
func Store()
