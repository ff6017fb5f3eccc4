//go:build linux && (amd64 || arm64)

package kernels

import (
	"os"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"golang.org/x/sys/unix"
)

// Guests are emulated, on machines that do other things too. So testenv.Patience, how
// long a test waits for what should take moments, and starting, how long it waits
// for bpftrace to start and attach, are long.
const (
	starting = 4 * time.Minute
)

func TestMain(m *testing.M) {
	if os.Getpid() == 1 {
		runGuest()
		return
	}
	tracetest.Main(m, map[string]func([]string){"subject": runSubject, "server": runServer, "callers": runCallers})
}

// release returns the kernel's release, as uname -r prints it.
func release() string {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "?"
	}
	return unix.ByteSliceToString(uts.Release[:])
}
