//go:build linux

package tracers

import (
	"flag"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// guest is set by scripts/lib/guests.sh, in a guest whose kernel has headers and modules. A tracer
// of one release is installed there.
var guest = flag.String("guest", "", "the Debian release of the guest: try only the tracers that need its kernel's headers or modules")

// elsewhere is what a cell shows of a tracer that needs a kernel with headers or modules, which this
// machine does not have.
const elsewhere = "[in a guest](#kernels-with-headers)"

// patience is how long a tracer may take. In a guest, which is emulated, bcc compiles for minutes.
func patience() time.Duration {
	if *guest != "" {
		return 5 * testenv.Patience
	}
	return testenv.Patience
}

// guestRows are of the tracers that need the headers or the modules of the running kernel.
func guestRows() []row {
	rows := slices.Concat(bccRows(host{}), kernelRows(), otherRows())
	return slices.DeleteFunc(rows, func(r row) bool { return !r.inGuest })
}
