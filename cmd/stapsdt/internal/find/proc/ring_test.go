//go:build linux

package proc

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRingSize: the memory that a program has made for events counts, used or not.
func TestRingSize(t *testing.T) {
	before := RingSize(os.Getpid())
	for _, m := range []struct {
		name string
		size int
	}{{"stapsdt-watch-14", 0x201000}, {"stapsdt-watch-14", 0x1000}, {"other", 0x100000}} {
		fd, err := unix.MemfdCreate(m.name, unix.MFD_CLOEXEC)
		require.NoError(t, err)
		b, err := unix.Mmap(fd, 0, m.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	}
	require.EqualValues(t, 0x201000+0x1000, RingSize(os.Getpid())-before)
}
