//go:build linux

package console

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWarn: a text from a traced program can neither command the terminal nor forge a line.
func TestWarn(t *testing.T) {
	var b strings.Builder
	c := &Console{Err: &b}
	c.Warn("%s: %v", "/tmp/p\x1b[31m\nstapsdt: all is well", "a\r\n\tb")
	require.Equal(t, "stapsdt: /tmp/p\ufffd[31m\n\tstapsdt: all is well: a\ufffd\n\tb\n", b.String())
}
