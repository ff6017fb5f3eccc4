//go:build linux

package attach

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/sdt"

	"golang.org/x/sys/unix"
)

// TestWrap: the error names the capability that the kernel demands for the way of attaching.
func TestWrap(t *testing.T) {
	runtime.LockOSThread() // for good: the thread ends with the test, as it has lost its capabilities
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		t.Fatal(err)
	}
	site := sdt.Site{Provider: "p", Name: "n", Offset: 16}
	for _, c := range []struct {
		err   error
		multi bool
		want  string
	}{
		{unix.EACCES, false, "attaching to probes on this kernel needs CAP_SYS_ADMIN"},
		{unix.EACCES, true, "attaching to probes needs CAP_BPF and CAP_PERFMON"},
		{unix.EPERM, false, "attaching to probes needs CAP_BPF and CAP_PERFMON"},
		{unix.EMFILE, true, "attaching to probes: open: too many open files"},
		{unix.EINVAL, false, "the site of p:n at 0x10 cannot be traced: open: invalid argument"},
	} {
		err := wrap(fmt.Errorf("open: %w", c.err), site, c.multi)
		if err.Error() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%v, multi %v: %v", c.err, c.multi, err)
		}
		var refused *rights.Error
		if errors.As(err, &refused) != (c.err == unix.EACCES || c.err == unix.EPERM) {
			t.Errorf("%v: %T", c.err, err)
		}
	}
}
