package function

import "regexp"

// Pattern selects functions by their names. A pattern that is the name of a function selects only that
// function. Otherwise * stands for any characters, and ? for one. The * of a pointer receiver, as in
// (*Server), and brackets are literal.
type Pattern string

// isStar reports whether the pattern has a star at an index that stands for any characters.
func (p Pattern) isStar(i int) bool { return p[i] == '*' && (i == 0 || p[i-1] != '(') }

// glob returns an expression for the names that the pattern matches as a glob. It matches in linear time.
func (p Pattern) glob() *regexp.Regexp {
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
func (p Pattern) Match(name string) bool { return string(p) == name || p.glob().MatchString(name) }
