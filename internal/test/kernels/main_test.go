//go:build linux && (amd64 || arm64)

package kernels

import (
	"os"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"golang.org/x/sys/unix"
)

// starting is how long a test waits for a tracer to start and attach. It is long because guests are emulated, on machines that do other things too.
const starting = 4 * time.Minute

// testedBy skips a short test on a machine where another package holds the same, so not in a guest.
func testedBy(t *testing.T, other string) {
	t.Helper()
	if _, err := os.Stat("../../../cmd/stapsdt"); err == nil {
		testenv.Long(t, "internal/test/"+other+" holds the same on this kernel")
	}
}

func TestMain(m *testing.M) {
	if os.Getpid() == 1 {
		runGuest()
		return
	}
	tracetest.Main(m, map[string]func([]string){"subject": runSubject, "server": runServer, "callers": runCallers, "pairs": runPairs})
}

// release returns the kernel's release, as uname -r prints it.
func release() string {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "?"
	}
	return unix.ByteSliceToString(uts.Release[:])
}
