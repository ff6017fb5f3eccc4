//go:build linux

package stall

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestPasses: a shortage is found in whatever an error was wrapped in, and a verdict is none.
func TestPasses(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EMFILE: true, unix.ENFILE: true, unix.ENOMEM: true, unix.EAGAIN: true, unix.EINTR: true, Err: true,
		unix.EPERM: false, unix.EACCES: false, unix.EINVAL: false, unix.E2BIG: false, unix.ENOSPC: false,
	} {
		require.Equal(t, want, Passes(err), err)
		require.Equal(t, want, Passes(fmt.Errorf("load: %w", &fs.PathError{Op: "open", Path: "/x", Err: err})), err)
		require.Equal(t, want, Passes(errors.Join(errors.New("other"), err)), err)
	}
	require.False(t, Passes(nil))
	require.False(t, Passes(errors.New("undefined: x")))
}
