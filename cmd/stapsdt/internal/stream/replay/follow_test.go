package replay

import (
	"bytes"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"

	"github.com/stretchr/testify/require"
)

// TestFollow: a recording that has ended is replaced by another one of the same path, whose events follow, and what
// it had lost still counts.
func TestFollow(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open cannot be replaced")
	}
	recorded := func(before, n uint64) *eventtest.Recording {
		r := &eventtest.Recording{}
		r.Head.Ended = true
		fired := eventtest.Fired{Probe: r.Probe("p", "x", "n"), At: time.Second, Words: []uint64{n}}
		r.Probe("p", "y", "m")
		r.Chunk(0, before, fired)
		return r
	}
	path := write(t, recorded(3, 1))
	r := open(t, "n != 0", path)
	first := r.Files()[0]
	var said bytes.Buffer
	to := &console.Console{Err: &said}
	require.Equal(t, []string{"p:x n=1"}, texts(t, r))
	require.Empty(t, r.Follow(to))
	require.Empty(t, said.String(), "events may have been written until now")
	for range 2 {
		require.Empty(t, texts(t, r))
		require.Empty(t, r.Follow(to))
		require.Equal(t, "stapsdt: the recording "+path+" of process 7 has ended\n", said.String())
	}
	said.Reset()
	require.NoError(t, os.Rename(write(t, recorded(2, 2)), path))
	require.Equal(t, []*File{first}, r.Follow(to))
	require.Equal(t, "stapsdt: "+path+" was replaced by a recording of process 7\n"+
		"stapsdt: "+path+" has lost 3 events before its first one: not all events are shown\n"+
		"stapsdt: 2 of 4 probes have no n and are left out\n", said.String())
	require.Equal(t, []string{"p:x n=2"}, texts(t, r))
	require.Equal(t, Losses{Lost: 5, Before: 2}, r.Losses())
}
