//go:build linux && !cgo

package debugger

import (
	"os"

	"golang.org/x/sys/unix"
)

// bound keeps this process from allocating more than some bytes beyond what Go has reserved, also between two looks of watch.
func bound(memory int64) error {
	limit := uint64(ownSize("VmData") + memory)
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}))
}
