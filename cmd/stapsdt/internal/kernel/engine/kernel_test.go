//go:build linux

package engine

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestWrap: the error names the capability that the kernel demands for the way of attaching.
func TestWrap(t *testing.T) {
	runtime.LockOSThread() // for good: the thread ends with the test, as it has lost its capabilities
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	require.NoError(t, unix.Capset(&header, &none[0]))
	site := Site{Site: sdt.Site{Provider: "p", Name: "n", Offset: 16}}
	for _, c := range []struct {
		err   error
		multi bool
		want  string
	}{
		{unix.EACCES, false, "attaching to probes on this kernel needs CAP_SYS_ADMIN"},
		{unix.EACCES, true, "attaching to probes needs CAP_BPF and CAP_PERFMON"},
		{unix.EPERM, false, "attaching to probes needs CAP_BPF and CAP_PERFMON"},
		{unix.EMFILE, true, "attaching to probes: too many files are open: raise the limit (ulimit -n, LimitNOFILE= of systemd)"},
		{unix.EINVAL, false, "the site of p:n at 0x10 cannot be traced: the kernel rejects the site: another tracer may use it with another semaphore, or the file may have changed"},
	} {
		err := wrap(fmt.Errorf("open: %w", c.err), site, c.multi)
		assert.EqualError(t, err, c.want, "multi %v", c.multi)
		assert.ErrorIs(t, err, c.err, "multi %v", c.multi)
		var refused *rights.Error
		assert.Equal(t, c.err == unix.EACCES || c.err == unix.EPERM, errors.As(err, &refused), "%v: %T", c.err, err)
	}
}
