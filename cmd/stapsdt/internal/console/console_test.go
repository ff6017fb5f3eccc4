//go:build linux

package console

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWarn: a text from a traced program can neither command the terminal nor forge a line.
func TestWarn(t *testing.T) {
	var b strings.Builder
	c := &Console{Err: &b}
	c.Warn("%s: %v", "/tmp/p\x1b[31m\nstapsdt: all is well", "a\r\n\tb")
	require.Equal(t, "stapsdt: /tmp/p\ufffd[31m\n\tstapsdt: all is well: a\ufffd\n\tb\n", b.String())
}

// TestAbandon: a command ends after a while whatever it waits for, but not if it has its results.
func TestAbandon(t *testing.T) {
	var b strings.Builder
	c := &Console{Err: &b}
	exited := false
	c.Abandon(time.Millisecond, func() { exited = true })
	require.True(t, exited)
	require.Contains(t, b.String(), "ends without its results")

	stuck, writer := io.Pipe() // nobody reads it
	defer stuck.Close()
	c, exited = &Console{Err: writer}, false
	c.Abandon(time.Millisecond, func() { exited = true })
	require.True(t, exited)

	c, exited = &Console{Err: io.Discard}, false
	c.Finish()
	c.Abandon(time.Millisecond, func() { exited = true })
	require.False(t, exited)
}
