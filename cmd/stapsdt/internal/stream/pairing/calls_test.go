package pairing

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCalls: a call or a return ends the deeper calls of its goroutine, and all calls of another
// goroutine that had its g.
func TestCalls(t *testing.T) {
	var c Calls[int, string]
	at, other := Goroutine[int]{1, 7}, Goroutine[int]{2, 7}
	for depth, name := range []string{"a", "b", "c"} {
		c.Begin(at, 5, Call[string]{name, uint64(depth), name})
	}
	c.Begin(other, 5, Call[string]{"a", 0, "other"})
	open, ended := c.Unwind(at, 5, 2)
	require.Equal(t, []Call[string]{{"a", 0, "a"}, {"b", 1, "b"}}, open)
	require.Equal(t, []Call[string]{{"c", 2, "c"}}, ended)
	_, ok := c.End(at, "a", 0) // the innermost is b
	require.False(t, ok)
	kept, ok := c.End(at, "b", 1)
	require.True(t, ok)
	require.Equal(t, "b", kept)
	open, ended = c.Unwind(at, 6, 100)
	require.Empty(t, open)
	require.Len(t, ended, 1)
	_, ok = c.End(at, "a", 0)
	require.False(t, ok)
	require.EqualValues(t, 2, c.Strays)
	c.EndAll(func(at Goroutine[int], call Call[string]) bool { return at == other && call.Name == "a" })
	require.Empty(t, c.stacks)
}
