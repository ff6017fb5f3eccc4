//go:build linux

package tracetest

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// LockMachine waits until no other process has done so, and keeps others waiting until this one ends. It is for a TestMain
// whose tests trace all processes of the machine.
func LockMachine() error {
	// A descriptor, and no os.File, which would be closed when nothing refers to it.
	lock, err := unix.Open(filepath.Join(os.TempDir(), "stapsdt-test-machine.lock"), unix.O_CREAT|unix.O_RDONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Flock(lock, unix.LOCK_EX)
}
