//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestWithoutRights: the message about missing rights names the recording of the process, or what works without.
func TestWithoutRights(t *testing.T) {
	var out, said bytes.Buffer
	to := &console.Console{Out: &out, Err: &said}
	root := rootCommand(to)
	c, _, err := root.Find([]string{"count"})
	require.NoError(t, err)
	require.NoError(t, c.Flags().Set("pid", strconv.Itoa(os.Getpid())))
	refused := rights.New("attaching", unix.EPERM)
	require.Equal(t, exitRights, fail(to, c, refused))
	require.Contains(t, said.String(), "see stapsdt help rights\n")
	recorder, err := proberec.Create(filepath.Join(t.TempDir(), "recording"), 1<<20, stapsdt.NewProvider("recorded"))
	require.NoError(t, err)
	defer recorder.Close()
	said.Reset()
	require.Equal(t, exitRights, fail(to, c, refused))
	require.Contains(t, said.String(), fmt.Sprintf("; process %d records to %s, which --from reads\n", os.Getpid(), recorder.Path()))
}

// TestReaderGone: the end of "| head" is no failure, and that of a program's socket is one.
func TestReaderGone(t *testing.T) {
	require.True(t, isReaderGone(&fs.PathError{Op: "write", Path: "/dev/stdout", Err: unix.EPIPE}))
	require.False(t, isReaderGone(&net.OpError{Op: "write", Net: "unix", Err: os.NewSyscallError("write", unix.EPIPE)}))
}

// TestNoWriter: a pipe in place of a recording is refused, and no writer is waited for.
func TestNoWriter(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	require.Equal(t, exitFailure, execute([]string{"list", "--from", fifo}, io.Discard, io.Discard))
}

// TestOnlyLinux: the commands that say elsewhere that they need Linux are those that need it.
func TestOnlyLinux(t *testing.T) {
	var names []string
	for _, c := range linuxCommands(&console.Console{}) {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	require.Equal(t, names, onlyLinux)
}
