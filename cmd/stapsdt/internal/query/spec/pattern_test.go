package spec

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"main.f", "main.f", true}, {"main.f", "main.f2", false}, {"main.*", "main.f", true}, {"main.?", "main.f", true}, {"main.?", "main.", false},
		{"main.(*Server).handle", "main.(*Server).handle", true}, {"main.(*Server).handle", "main.(*HTTPServer).handle", false},
		{"main.(*Server).*", "main.(*Server).handle", true}, {"main.(*Server).*", "main.(*HTTPServer).handle", false},
		{"main.(**Server).handle", "main.(*HTTPServer).handle", true}, {"main.(*S*).handle", "main.(*Server).handle", true},
		{"main.Gen[go.shape.int]", "main.Gen[go.shape.int]", true}, {"main.Gen[go.shape.int]", "main.Geng", false}, {"main.Gen[*]", "main.Gen[go.shape.int]", true},
		{"*", "net/http.(*conn).serve", true}, {"net/http.*serve", "net/http.(*conn).serve", true}, {"*http*serve", "net/http.(*conn).serve", true},
		{"*.serve", "net/http.(*conn).serve2", false}, {"", "", true}, {"", "a", false}, {"a**b", "ab", true}, {"a*b*c", "a.b.b.c", true},
	} {
		assert.Equal(t, c.want, Pattern(c.pattern).Match(c.name), "%s %s", c.pattern, c.name)
	}
	assert.False(t, Pattern("main.(*Server).handle").IsGlob())
	assert.False(t, Pattern("main.Gen[go.shape.int]").IsGlob())
	assert.True(t, Pattern("main.*").IsGlob())
}

// TestPatternTime: no pattern takes time that grows exponentially with its stars, which would not end.
func TestPatternTime(t *testing.T) {
	assert.False(t, Pattern(strings.Repeat("*a", 200)+"b").Match(strings.Repeat("a", 4000)))
}

// TestGlob compares globs with regular expressions, also for bytes that are not UTF-8.
func TestGlob(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, random.IntN(7))
		for i := range b {
			b[i] = "ab*?(\xc3\xa9\xff"[random.IntN(8)]
		}
		return string(b)
	}
	matches := 0
	for range 200_000 {
		p, name := Pattern(word()), word()
		expression := `(?s)\A`
		for i, r := range string(p) {
			switch {
			case p.isStar(i):
				expression += ".*"
			case r == '?':
				expression += "."
			default:
				expression += regexp.QuoteMeta(string(r))
			}
		}
		want := regexp.MustCompile(expression + `\z`).MatchString(name)
		require.Equal(t, want, p.Glob().Match([]byte(name)), "%q %q", p, name)
		if want {
			matches++
		}
	}
	assert.Greater(t, matches, 10_000)
}
