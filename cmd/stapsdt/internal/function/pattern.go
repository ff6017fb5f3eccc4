package function

import "strings"

// Pattern selects functions by their names. A pattern that is the name of a function selects only that
// function. Otherwise * stands for any characters, and ? for one. The * of a pointer receiver, as in
// (*Server), and brackets are literal.
type Pattern string

// token is a part of a pattern: a literal, or a wildcard.
type token struct {
	literal string
	any     bool // *
	one     bool // ?
}

// tokens splits a pattern. There are no two adjacent stars.
func (p Pattern) tokens() (all []token) {
	literal := 0
	flush := func(end int) {
		if end > literal {
			all = append(all, token{literal: string(p[literal:end])})
		}
	}
	for i := range len(p) {
		star := p[i] == '*' && (i == 0 || p[i-1] != '(')
		if !star && p[i] != '?' {
			continue
		}
		flush(i)
		if literal = i + 1; star && len(all) > 0 && all[len(all)-1].any {
			continue
		}
		all = append(all, token{any: star, one: !star})
	}
	flush(len(p))
	return all
}

// IsGlob reports whether the pattern has a wildcard.
func (p Pattern) IsGlob() bool {
	for _, t := range p.tokens() {
		if t.any || t.one {
			return true
		}
	}
	return false
}

// Match reports whether a name matches the pattern as a glob, or is equal to it.
func (p Pattern) Match(name string) bool { return string(p) == name || match(p.tokens(), name) }

// match reports whether tokens match a name. It takes at most time proportional to the product of both
// lengths, because it goes back only to the last star.
func match(tokens []token, name string) bool {
	i, at := 0, 0
	star, from := -1, 0 // the last star, and the end of the characters that it matches
	for {
		switch {
		case i == len(tokens) && at == len(name):
			return true
		case i < len(tokens) && tokens[i].any:
			star, from = i, at
			i++
			continue
		case i < len(tokens) && tokens[i].one && at < len(name):
			i, at = i+1, at+1
			continue
		case i < len(tokens) && tokens[i].literal != "" && strings.HasPrefix(name[at:], tokens[i].literal):
			at += len(tokens[i].literal)
			i++
			continue
		}
		if star < 0 || from >= len(name) {
			return false
		}
		from++
		i, at = star+1, from
	}
}
