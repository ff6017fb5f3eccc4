package value

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWholeRunes: only a rune that is cut at the end is dropped.
func TestWholeRunes(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"abc":          "abc",
		"aé":           "aé",
		"a\xc3":        "a",
		"a€":           "a€",
		"a\xe2\x82":    "a",
		"a\xe2":        "a",
		"\xf0\x9f\x98": "",
		"a😀":           "a😀",
		"a\xff":        "a\xff", // is no rune that is incomplete
		"\x80\x80\x80": "\x80\x80\x80",
	} {
		assert.Equal(t, want, string(WholeRunes([]byte(text))), text)
	}
}
