//go:build linux && amd64

package site

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestChoice(t *testing.T) {
	for _, c := range []struct {
		answer  error
		seccomp bool
		release string
		want    string
	}{
		{unix.ENOSYS, false, "6.12.0", "nop1"},
		{unix.ENOSYS, false, "9.9.9", "nop1"},
		{unix.ENXIO, false, "6.18.0", "nop5"},
		{unix.ENXIO, false, "5.10.0", "nop5"},
		{unix.EPROTO, false, "7.2.13", "nop10"},
		{unix.EPERM, false, "7.3.0", "nop1"},
		{nil, false, "7.3.0", "nop1"},
		{nil, true, "5.10.0-8-amd64", "nop1"},
		{nil, true, "6.17.13+deb14", "nop1"},
		{nil, true, "6.18.0-rc1", "nop5"},
		{nil, true, "6.18", "nop5"},
		{nil, true, "7.2.0", "nop5"},
		{nil, true, "7.3.0", "nop10"},
		{nil, true, "10.0", "nop10"},
		{nil, true, "", "nop1"},
		{nil, true, "linux", "nop1"},
		{nil, true, "7", "nop1"},
		{nil, true, "7.x", "nop1"},
	} {
		asked := false
		k := kernel{seccomp: c.seccomp, uprobe: func() error { asked = true; return c.answer }}
		k.major, k.minor = parseRelease(c.release)
		require.Equal(t, c.want, k.site(), "%+v", c)
		require.Equal(t, !c.seccomp, asked, "under seccomp the kernel must not be asked")
	}
	require.NotNil(t, Chosen())
}

// TestEnvironment: $STAPSDT_SITE decides, and what it cannot have is refused.
func TestEnvironment(t *testing.T) {
	for name, want := range map[string]string{"": Chosen().Name, "fast": Chosen().Name, "nop1": "nop1", "nop10": "nop10"} {
		t.Setenv("STAPSDT_SITE", name)
		got, err := ForProcess()
		require.NoError(t, err)
		if name == "" && mayForkUnrepaired {
			want = "nop1"
		}
		require.Equal(t, want, got.Name, name)
	}
	t.Setenv("STAPSDT_SITE", "nop4")
	_, err := ForProcess()
	require.EqualError(t, err, "STAPSDT_SITE=nop4: sites on amd64 are nop1, nop5, nop10, or fast")
}
