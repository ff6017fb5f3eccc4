package top

import (
	"fmt"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"
)

// pressed returns the keys that are left when parts have been added, without a pause between them.
func pressed(parts ...string) (all []string) {
	k := newKeys()
	for _, part := range parts {
		k.add([]byte(part))
		for len(k.events) > 0 {
			all = append(all, (<-k.events).(*tcell.EventKey).Name())
		}
	}
	return all
}

// TestKeys: a key that ends the screen is seen whatever was typed before, however much is read at once.
func TestKeys(t *testing.T) {
	for typed, keys := range map[string]map[string]string{
		"\x1b]":     {"q": "Rune[q]", "\x03": "Ctrl+C"},
		"\x1b]a":    {"q": "Rune[q]", "\x03": "Ctrl+C"},
		"\x1bX":     {"q": "Rune[q]", "\x03": "Ctrl+C"},
		"\x1b^a":    {"q": "Rune[q]", "\x03": "Ctrl+C"},
		"\x1b_1":    {"q": "Rune[q]", "\x03": "Ctrl+C"},
		"\x1b\x1b]": {"q": "Rune[q]", "\x03": "Ctrl+C"},
		"\x1b]1":    {"\x03": "Ctrl+C"},
		"\x1b[":     {"\x03": "Ctrl+C"},
		"\x1bO":     {"\x03": "Ctrl+C"},
		"\x1b":      {"\x03": "Ctrl+C"},
	} {
		for key, name := range keys {
			t.Run(fmt.Sprintf("%q %q", typed, key), func(t *testing.T) {
				var bytes []string
				for _, b := range []byte(typed + key) {
					bytes = append(bytes, string(b))
				}
				for _, parts := range [][]string{{typed + key}, {typed, key}, bytes} {
					require.Contains(t, pressed(parts...), name, "%q", parts)
				}
			})
		}
	}
	require.Equal(t, []string{"Rune[q]"}, pressed("\x1b]11;rgb:0000/0000/0000\x1b\\q"), "a terminal that answers types nothing")
	require.Equal(t, []string{"Up", "Rune[q]"}, pressed("\x1b[Aq"))
}
