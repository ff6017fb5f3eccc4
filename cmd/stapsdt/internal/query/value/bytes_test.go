package value

import (
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/stretchr/testify/assert"
)

// TestBytes: bytes are text if they are UTF-8, and no two values look the same.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		b    string
		most int
		text string
		cut  bool
	}{
		{"", 4, "", false},
		{"GET", 3, "GET", false},
		{"GET /", 3, "GET", true},
		{"a\x00b", 4, "a\x00b", false},
		{"\xff\x01", 4, "0xff01", false},
		{"\xff\x01\x02\x03\x04", 4, "0xff010203", true},
		{"aé", 2, "a", true},
		{"a\xc3", 2, "0x61c3", false}, // not cut, but incomplete
		{"\xff\xc3\xa9", 2, "0xffc3", true},
		{"0x", 4, "0x3078", false},
		{"0xff", 4, "0x30786666", false},
		{"0yff", 4, "0yff", false},
	} {
		text, cut := Bytes([]byte(c.b), c.most)
		assert.Equal(t, c.text, string(text), "%q", c.b)
		assert.Equal(t, c.cut, cut, "%q", c.b)
	}
}

// TestBytesInKey: bytes in a key can contain NULs, and damaged keys do no harm.
func TestBytesInKey(t *testing.T) {
	i := Item{Offset: 8, Size: TextSize + 8, IsBytes: true}
	i.Type.Kind = expr.String
	key := make([]byte, 8+TextSize+8)
	copy(key[8:], "a\x00b\x00")
	for length, want := range map[byte]string{0: "", 1: "", 3: "a\x00", 5: "a\x00b\x00"} {
		key[8+KeyLength] = length
		_, text, cut := i.In(key)
		assert.Equal(t, want, string(text))
		assert.False(t, cut)
	}
	for _, length := range []byte{TextSize + 1, 255} {
		key[8+KeyLength] = length
		_, text, cut := i.In(key)
		assert.Equal(t, "a\x00b"+strings.Repeat("\x00", TextSize-3), string(text))
		assert.True(t, cut)
	}
}
