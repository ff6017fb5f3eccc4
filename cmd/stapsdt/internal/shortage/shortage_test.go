//go:build linux

package shortage

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestIs: a shortage is found in whatever an error was wrapped in, and a verdict is none.
func TestIs(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EMFILE: true, unix.ENFILE: true, unix.ENOMEM: true, unix.EAGAIN: true, unix.EINTR: true, stall.Err: true,
		unix.EPERM: false, unix.EACCES: false, unix.EINVAL: false, unix.E2BIG: false, unix.ENOSPC: false,
	} {
		require.Equal(t, want, Is(err), err)
		require.Equal(t, want, Is(fmt.Errorf("load: %w", &fs.PathError{Op: "open", Path: "/x", Err: err})), err)
		require.Equal(t, want, Is(errors.Join(errors.New("other"), err)), err)
	}
	require.False(t, Is(nil))
	require.False(t, Is(errors.New("undefined: x")))
}
