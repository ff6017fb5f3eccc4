package words

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestTexts reads copies as Go does, and as a tracer does, which stops at the first NUL.
func TestTexts(t *testing.T) {
	long := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 100)
	list := []string{"", "a", long, "x\x00y", "ünï"}
	seen := []string{"", "a", long, "x", "ünï"}
	var a Arguments
	a.Reserve(len(strings.Join(list, "\x00")) + 1)
	defer a.Release()
	texts := a.Texts
	room := cap(texts.buf)
	addrs := make([]uint64, len(list))
	for i, s := range list {
		addrs[i] = texts.Add(s)
	}
	require.Equal(t, room, cap(texts.buf), "the texts have moved")
	clone := texts.Clone()
	copies, ends := texts.All()
	require.Len(t, ends, len(list))
	for i, s := range list {
		require.Equal(t, s, texts.At(i), "with what follows a NUL")
		require.Equal(t, s, clone.At(i))
		start := uintptr(addrs[i]) - uintptr(unsafe.Pointer(unsafe.SliceData(copies)))
		text, _, ok := strings.Cut(string(copies[start:]), "\x00")
		require.True(t, ok, "no NUL at the end")
		require.Equal(t, seen[i], text)
		require.EqualValues(t, 0, copies[ends[i]])
	}
	copies[0] = 'X'
	require.NotEqual(t, copies[0], clone.buf[0], "the clone has a copy of its own")
}

func TestNoTexts(t *testing.T) {
	var a Arguments
	a.Reserve(0)
	require.Nil(t, a.Texts)
	a.Release()
	copies, ends := a.Texts.All()
	require.Empty(t, copies)
	require.Empty(t, ends)
	require.Nil(t, a.Texts.Clone())
}
