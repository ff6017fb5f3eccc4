package text

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPrintable: no byte of a text can control a terminal or end a line, and everything that can be printed stays.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"größer 世界 ~":        "größer 世界 ~",
		"\x1b[7m":            "\ufffd[7m",
		"a\nb\tc\rd\x00e":    "a\ufffdb\ufffdc\ufffdd\ufffde",
		"\x7f":               "\ufffd",
		"\xff":               "\ufffd",
		"\u0085\u202e\u2028": "\ufffd\ufffd\ufffd",
	} {
		require.Equal(t, want, Printable(text), "%q", text)
	}
}

// TestCut: a wide character takes two columns, and a combining one none. A text that is cut never takes more columns than it may, ends in one …, and keeps its characters whole.
func TestCut(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "größe": 5, "世界": 4, "e\u0301": 1, "👩‍👩‍👧": 2, "🇩🇪x": 3} {
		require.Equal(t, want, Width(text), text)
	}
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"abcd", 1, "…"}, {"abcd", Unlimited, "abcd"},
		{"世界", 4, "世界"}, {"世界", 3, "世…"}, {"世界", 2, "…"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
	} {
		require.Equal(t, c.want, Cut(c.text, c.width), "%q in %d", c.text, c.width)
	}
}

// TestCutBefore: the end of a text stays, as far as it has room and is not longer than it may be.
func TestCutBefore(t *testing.T) {
	for _, c := range []struct {
		text        string
		width, tail int
		want        string
	}{
		{"abc", 3, 1, "abc"}, {"abcdefgh", 6, 2, "abc…gh"}, {"abcdefgh", 6, 0, "abcde…"}, {"abcdefgh", 4, 9, "…fgh"},
		{"世界人民", 6, 3, "世…民"}, {"abcdee\u0301", 4, 1, "ab…e\u0301"},
	} {
		got := CutBefore(c.text, c.width, c.tail)
		require.Equal(t, c.want, got, "%q in %d", c.text, c.width)
		require.LessOrEqual(t, Width(got), c.width)
	}
}

// TestNames: a list names its first entries and says how many more there are, and the name of a probe is a name in Go.
func TestNames(t *testing.T) {
	require.Equal(t, "a, b", Some([]string{"a", "b"}, 2))
	require.Equal(t, "a, b and 1 more", Some([]string{"a", "b", "c"}, 2))
	require.Equal(t, "1, 2, 3, 4, 5, 6, 7, 8", PIDs([]int{1, 2, 3, 4, 5, 6, 7, 8}))
	require.Equal(t, "1, 2, 3, 4, 5, 6, 7, 8 and 2 more", PIDs([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}))
	for name, want := range map[string]string{"request__done": "RequestDone", "a": "A", "": "", "_x_": "X", "isHTTP_2": "IsHTTP2"} {
		require.Equal(t, want, Camel(name))
	}
	require.Equal(t, []string{"0 events", "1 event", "2 events"}, []string{Number(0, "event"), Number(1, "event"), Number(2, "event")})
	require.Equal(t, "18446744073709551615 events", Number(uint64(1<<64-1), "event"))
}

// TestList: two names are separated by a word, and three by a comma too.
func TestList(t *testing.T) {
	names := []string{"a", "b", "c"}
	for i, want := range []string{"", "a", "a or b", "a, b or c"} {
		require.Equal(t, want, List(names[:i], "or"))
	}
}
