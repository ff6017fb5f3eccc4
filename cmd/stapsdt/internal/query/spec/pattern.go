package spec

import (
	"regexp"
	"strconv"
	"strings"
)

// Pattern selects functions by their names. A pattern that is the name of a function selects only
// that function. Otherwise * stands for any characters, and ? for one. The * of a pointer
// receiver, as in (*Server), and brackets are literal.
type Pattern string

// isStar reports whether the pattern has a star at an index that stands for any characters.
func (p Pattern) isStar(i int) bool { return p[i] == '*' && (i == 0 || p[i-1] != '(') }

// Glob returns an expression for the names that the pattern matches as a glob. It matches in
// linear time.
func (p Pattern) Glob() *regexp.Regexp {
	expression := `(?s)\A`
	for i, r := range string(p) { // invalid UTF-8 becomes U+FFFD, which matches it
		switch {
		case p.isStar(i):
			expression += ".*"
		case r == '?':
			expression += "."
		default:
			expression += regexp.QuoteMeta(string(r))
		}
	}
	return regexp.MustCompile(expression + `\z`)
}

// IsGlob reports whether the pattern has a wildcard.
func (p Pattern) IsGlob() bool {
	for i := range p {
		if p.isStar(i) || p[i] == '?' {
			return true
		}
	}
	return false
}

// Match reports whether a name matches the pattern as a glob, or is equal to it.
func (p Pattern) Match(name string) bool { return string(p) == name || p.Glob().MatchString(name) }

// Unescape returns a name as the source has it. The compiler writes some bytes of import paths in
// hexadecimal, such as the dots after the last slash: gopkg.in/yaml%2ev3.Unmarshal
// (objabi.PathToPrefix).
func Unescape(name string) string {
	if !strings.Contains(name, "%") {
		return name
	}
	var b []byte
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '%' && i+2 < len(name) {
			if n, err := strconv.ParseUint(name[i+1:i+3], 16, 8); err == nil {
				c, i = byte(n), i+2
			}
		}
		b = append(b, c)
	}
	return string(b)
}
