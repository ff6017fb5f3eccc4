//go:build linux && !cgo

package inpod

import (
	"os"

	"golang.org/x/sys/unix"
)

// bound limits the memory that this process allocates beyond the memory that Go has reserved, even
// between two checks of watch.
func bound(memory int64) error {
	limit := uint64(ownSize("VmData") + memory)
	return os.NewSyscallError(
		"setrlimit", unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}),
	)
}
