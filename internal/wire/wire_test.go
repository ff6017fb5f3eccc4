package wire

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMessages(t *testing.T) {
	hello := Hello{Major, Minor, 4711, 99}
	body := append(hello.Append(nil), "what a later version adds"...)
	kind, read, err := Read(bytes.NewReader(Append(nil, KindHello, body)))
	require.NoError(t, err)
	require.Equal(t, KindHello, kind)
	got, err := DecodeHello(read)
	require.NoError(t, err)
	require.Equal(t, hello, got)

	watch := Watch{1 << 20, []Pattern{{"p", "*"}, {"", strings.Repeat("x", 300)}}}
	gotWatch, err := DecodeWatch(append(watch.Append(nil), 1, 2, 3))
	require.NoError(t, err)
	require.Equal(t, watch, gotWatch)

	watching := Watching{1 << 30}
	gotWatching, err := DecodeWatching(watching.Append(nil))
	require.NoError(t, err)
	require.Equal(t, watching, gotWatching)

	failure := &Error{CodeBusy, "busy"}
	gotError, err := DecodeError(failure.Append(nil))
	require.NoError(t, err)
	require.Equal(t, failure, gotError)
}

// TestMalformed: what is too short, too long or another thing is refused, and of another major version
// nothing but the version is read.
func TestMalformed(t *testing.T) {
	_, _, err := Read(bytes.NewReader([]byte{1, 0, 1, 0, 1, 0, 0, 0}))
	require.ErrorIs(t, err, ErrMalformed)
	for n := range len((&Hello{Major: Major}).Append(nil)) {
		_, err := DecodeHello((&Hello{Major: Major}).Append(nil)[:n])
		require.ErrorIs(t, err, ErrMalformed)
	}
	h, err := DecodeHello((&Hello{Major: 7}).Append(nil)[:12])
	require.NoError(t, err)
	require.EqualValues(t, 7, h.Major)
	w := Watch{1, []Pattern{{"provider", "probe"}}}
	for n := range len(w.Append(nil)) {
		_, err := DecodeWatch(w.Append(nil)[:n])
		require.ErrorIs(t, err, ErrMalformed)
	}
	_, err = DecodeWatch((&Watch{Patterns: make([]Pattern, MaxPatterns+1)}).Append(nil))
	require.ErrorIs(t, err, ErrMalformed)
}

func FuzzMessages(f *testing.F) {
	f.Add((&Hello{Major: Major}).Append(nil))
	f.Add((&Watch{1, []Pattern{{"provider", "probe"}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		defer func() {
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20+16*len(b)))
		}()
		_, _, _ = Read(bytes.NewReader(b))
		_, _ = DecodeHello(b)
		_, _ = DecodeWatching(b)
		_, _ = DecodeError(b)
		if w, err := DecodeWatch(b); err == nil {
			require.LessOrEqual(t, len(w.Patterns), MaxPatterns)
			require.True(t, bytes.HasPrefix(b, w.Append(nil)[:12]))
		}
	})
}
