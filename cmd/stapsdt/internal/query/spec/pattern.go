package spec

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Pattern selects functions by their names. A pattern that is the name of a function selects only
// that function. Otherwise * stands for any characters, and ? for one. The * of a pointer
// receiver, as in (*Server), and brackets are literal.
type Pattern string

// isStar reports whether the pattern has a star at an index that stands for any characters.
func (p Pattern) isStar(i int) bool { return p[i] == '*' && (i == 0 || p[i-1] != '(') }

// Glob matches names. It takes at most the time of the lengths of the pattern and the name,
// multiplied.
type Glob struct {
	runes []rune // star and one for wildcards
	// literal is the longest part without wildcards, which a name must contain.
	literal []byte
}

// star and one are the runes of wildcards.
const star, one = -1, -2

// Glob returns the pattern as a glob.
func (p Pattern) Glob() *Glob {
	g := &Glob{}
	from := 0 // the start of a part without wildcards
	// Bytes that are not UTF-8 match U+FFFD.
	isExact := !strings.ContainsRune(string(p), utf8.RuneError)
	for i, r := range string(p) {
		switch {
		case p.isStar(i):
			r = star
		case r == '?':
			r = one
		}
		g.runes = append(g.runes, r)
		if r < 0 {
			from = i + 1
		} else if isExact && i+utf8.RuneLen(r)-from > len(g.literal) {
			g.literal = []byte(p[from : i+utf8.RuneLen(r)])
		}
	}
	return g
}

// Match reports whether the glob matches a name. In both, U+FFFD stands for invalid UTF-8.
func (g *Glob) Match(name []byte) bool {
	if !bytes.Contains(name, g.literal) {
		return false
	}
	i, again, rest := 0, -1, name // rest follows what the star before again stands for
	for len(name) > 0 {
		r, size := utf8.DecodeRune(name)
		switch {
		case i < len(g.runes) && g.runes[i] == star:
			if i++; i == len(g.runes) {
				return true
			}
			again, rest = i, name
		case i < len(g.runes) && (g.runes[i] == one || g.runes[i] == r):
			i, name = i+1, name[size:]
		case again >= 0:
			_, size = utf8.DecodeRune(rest)
			rest = rest[size:]
			i, name = again, rest
		default:
			return false
		}
	}
	for i < len(g.runes) && g.runes[i] == star {
		i++
	}
	return i == len(g.runes)
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
func (p Pattern) Match(name string) bool {
	return string(p) == name || p.Glob().Match([]byte(name))
}

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
