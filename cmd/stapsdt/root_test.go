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
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
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
	list, _, err := root.Find([]string{"list"})
	require.NoError(t, err)
	require.NoError(t, list.ParseFlags([]string{"-p", "1", "go:main.*"}))
	said.Reset()
	require.Equal(t, exitRights, fail(to, list, refused))
	require.Contains(t, said.String(), "see stapsdt help rights\n")
	require.NotContains(t, said.String(), "STAPSDT_SOCKET", "no socket shows functions")
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
	for name, verb := range linuxVerbs() {
		if !verb(&console.Console{}).Hidden {
			names = append(names, name)
		}
	}
	require.ElementsMatch(t, names, onlyLinux)
}

// TestKernelError: -v adds the kernel's error to the sentence about a refusal.
func TestKernelError(t *testing.T) {
	for verbose, want := range map[string]string{
		"false": "stapsdt: the map: it is too large\n",
		"true":  "stapsdt: the map: it is too large\nstapsdt: the kernel's error: create: argument list too long\n",
	} {
		var said bytes.Buffer
		to := &console.Console{Out: io.Discard, Err: &said}
		c, _, err := rootCommand(to).Find([]string{"count"})
		require.NoError(t, err)
		require.NoError(t, c.Flags().Set("verbose", verbose))
		fail(to, c, refusal{})
		require.Equal(t, want, said.String())
	}
}

// refusal is an error with the text of the kernel.
type refusal struct{}

func (refusal) Error() string { return "the map: it is too large" }
func (refusal) Raw() string   { return "create: argument list too long" }
