//go:build linux

package main

import (
	"io/fs"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestReaderGone: the end of "| head" is no failure, and that of a program's socket is one.
func TestReaderGone(t *testing.T) {
	require.True(t, isReaderGone(&fs.PathError{Op: "write", Path: "/dev/stdout", Err: unix.EPIPE}))
	require.False(t, isReaderGone(&net.OpError{Op: "write", Net: "unix", Err: os.NewSyscallError("write", unix.EPIPE)}))
}
