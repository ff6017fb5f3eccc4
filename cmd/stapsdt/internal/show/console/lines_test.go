package console

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// writes notes what was written at a time, until it fails.
type writes struct {
	parts []string
	fails int // the number of the write that fails, or 0
}

func (w *writes) Write(b []byte) (int, error) {
	if w.parts = append(w.parts, string(b)); len(w.parts) == w.fails {
		return 1, errors.New("full")
	}
	return len(b), nil
}

// TestLines: what gets into a pipe as a whole ends with a line, and a line that is too long stands alone.
func TestLines(t *testing.T) {
	short, long := strings.Repeat("s", 999)+"\n", strings.Repeat("l", 2*pipeBuf)+"\n"
	for text, want := range map[string][]string{
		"":                                   nil,
		short + "rest":                       {short + "rest"},
		strings.Repeat(short, 9):             {strings.Repeat(short, 4), strings.Repeat(short, 4), short},
		short + long + short + long + "rest": {short, long, short, long, "rest"},
		long[:2*pipeBuf]:                     {long[:2*pipeBuf]},
	} {
		w := &writes{}
		n, err := lines{w}.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
		require.Equal(t, want, w.parts)
	}
	w := &writes{fails: 2}
	n, err := lines{w}.Write([]byte(strings.Repeat(short, 9)))
	require.ErrorContains(t, err, "full")
	require.Equal(t, 4*len(short)+1, n)
	require.Len(t, w.parts, 2)
}

// TestShare: only a pipe is written to in parts.
func TestShare(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	for out, want := range map[io.Writer]io.Writer{file: file, w: lines{w}} {
		c := &Console{Out: out}
		c.Share()
		require.Equal(t, want, c.Out)
	}
}
