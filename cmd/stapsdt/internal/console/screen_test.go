//go:build linux

package console

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestErase: what was shown before is replaced, and the ^C of a terminal too.
func TestErase(t *testing.T) {
	require.Equal(t, "\r\x1b[K", string(Erase(0, true)))
	require.Empty(t, Erase(0, false))
	require.Equal(t, "\x1b[2A\r\x1b[J", string(Erase(2, true)))
}

// TestScreen: where there is no terminal, texts follow each other.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := Screen{Console: &Console{Out: &out, Err: &out}}
	require.NoError(t, s.Show([]byte("one\n"), false))
	require.NoError(t, s.Show([]byte("two\n"), true))
	require.Equal(t, "one\n\ntwo\n", out.String())
}
