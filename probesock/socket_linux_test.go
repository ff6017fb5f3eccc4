package probesock

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAcceptLow: a connection never has the number of a standard stream that the program has closed: a
// failed write to one would end the program.
func TestAcceptLow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	socket, err := listenAt(path)
	require.NoError(t, err)
	defer socket.Close()
	peer, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer peer.Close()
	saved, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	require.NoError(t, err)
	require.NoError(t, unix.Close(1))
	c, err := accept(socket)
	require.NoError(t, unix.Dup3(saved, 1, 0))
	require.NoError(t, unix.Close(saved))
	require.NoError(t, err)
	defer c.Close()
	require.GreaterOrEqual(t, c.Fd(), uintptr(3))
}
