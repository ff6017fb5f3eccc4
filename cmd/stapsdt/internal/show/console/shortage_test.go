package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExplain: a shortage has its remedy in place of the kernel's words, which are kept.
func TestExplain(t *testing.T) {
	require.Equal(t, io.EOF, Explain(io.EOF))
	for errno, remedy := range map[syscall.Errno]string{
		syscall.EMFILE: TooManyFiles, syscall.ENFILE: TooManyFiles, syscall.ENOMEM: NoMemory,
	} {
		err := fmt.Errorf("open x: %w; trying again", errno)
		said := Explain(err)
		require.EqualError(t, said, "open x: "+remedy+"; trying again")
		require.ErrorIs(t, said, errno)
		require.Equal(t, said, Explain(said), "once")

		var out bytes.Buffer
		c := &Console{Err: &out}
		c.WarnError(err, false)
		require.Equal(t, "stapsdt: open x: "+remedy+"; trying again\n", out.String())
		out.Reset()
		c.WarnError(err, true)
		require.Equal(t, "stapsdt: open x: "+remedy+"; trying again\nstapsdt: the kernel's error: "+err.Error()+"\n", out.String())
	}
	require.EqualError(t, Explain(wordless{}), "it failed: "+TooManyFiles)
}

// wordless is an error without the words of the one that it wraps.
type wordless struct{}

func (wordless) Error() string        { return "it failed" }
func (wordless) Is(target error) bool { return errors.Is(syscall.EMFILE, target) }
