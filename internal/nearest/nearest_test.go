package nearest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a:b", "a:b", 0}, {"a:b", "", 3}, {"", "a:b", 3}, {"greting", "greeting", 1}, {"greetnig", "greeting", 2},
		{"*:greeting", "hello:greeting", 0}, {"h*:b", "hello:a", 1}, {"?ello", "hello", 0}, {"*", "anything", 0}, {"é", "e", 1},
	} {
		assert.Equal(t, c.want, Distance(c.a, c.b), "%q, %q", c.a, c.b)
	}
}

func TestHint(t *testing.T) {
	for asked, want := range map[string]string{
		"orders:prices_end": "; the nearest name is orders:prices__end", "orders:price__end": "; the nearest name is orders:prices__end", "other:thing": "", "": "",
		"orders:*_ende": "; the nearest name is orders:log__end", strings.Repeat("x", maxName+1): "",
	} {
		assert.Equal(t, want, Hint(asked, "orders:request__start", "orders:prices__end", "orders:log__end", strings.Repeat("x", maxName+2)), asked)
	}
	assert.Equal(t, "; the nearest name is status", Hint("statuss", "elapsed", "status", "path"))
	assert.Empty(t, Hint("x", "elapsed", "status"))
	// A hostile program cannot make it compare for long.
	n := To("name")
	for range maxNames {
		n.See("other")
	}
	n.See("names")
	assert.Empty(t, n.Hint())
}
