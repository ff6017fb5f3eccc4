//go:build linux

package tracetest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// LockMachine waits until no other test traces all processes of the machine, or cares that nobody does, and keeps others
// waiting until this process ends or unlocks.
func LockMachine() (unlock func(), err error) {
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "stapsdt-test-machine.lock"), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		lock.Close()
		return nil, err
	}
	return func() { lock.Close() }, nil
}

// owned is the lock that the tests of this process share.
var owned struct {
	sync.Mutex
	users  int
	unlock func()
}

// OwnMachine is LockMachine until the end of a test. Tests of one process do not keep each other waiting.
func OwnMachine(t testing.TB) {
	t.Helper()
	owned.Lock()
	defer owned.Unlock()
	if owned.users == 0 {
		unlock, err := LockMachine()
		if err != nil {
			t.Fatal(err)
		}
		owned.unlock = unlock
	}
	owned.users++
	t.Cleanup(func() {
		owned.Lock()
		defer owned.Unlock()
		if owned.users--; owned.users == 0 {
			owned.unlock()
		}
	})
}
