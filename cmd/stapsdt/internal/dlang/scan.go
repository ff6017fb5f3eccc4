package dlang

import (
	"slices"
	"strconv"
	"strings"
)

// kind is what a token is.
type kind int

const (
	end   kind = iota
	word       // an identifier, a keyword, or a number
	mark       // a character, or "..."
	quote      // a string or a character in quotes
)

// token is a part of the text.
type token struct {
	kind kind
	text string
	pos  Pos
}

// maxExpansion is how many tokens a macro can become.
const maxExpansion = 1000

// preprocess is how to use more of the C preprocessor than is known here.
const preprocess = "cpp FILE.d | stapsdt generate --out FILE.go -"

// scanner splits a text into tokens. It follows the lines of the C preprocessor, so that
// its output can be read and errors are in the original file.
type scanner struct {
	text   string
	at     int
	pos    Pos
	fresh  bool // nothing but space was on this line yet
	macros map[string][]token
	tokens []token
	errors *Errors

	expanded int // words of macros since the last word of the text
}

// scan returns the tokens of a file, with macros expanded and an end. It stops at the first
// error.
func scan(file, text string, errors *Errors) []token {
	s := &scanner{text: text, pos: Pos{file, 1, 1}, fresh: true, macros: map[string][]token{}, errors: errors}
	for len(*errors) == 0 {
		t, ok := s.token()
		if !ok {
			break
		}
		switch {
		case t.kind == mark && t.text == "#" && s.fresh:
			s.directive(t.pos)
			s.fresh = true
			continue
		case t.kind == word:
			s.expanded = 0
			s.tokens = s.expand(s.tokens, t, t.pos, nil)
		default:
			s.tokens = append(s.tokens, t)
		}
		s.fresh = false
	}
	return append(s.tokens, token{end, "the end of the file", s.pos})
}

// skip moves over bytes of the text.
func (s *scanner) skip(n int) string {
	skipped := s.text[s.at : s.at+n]
	s.at += n
	if lines := strings.Count(skipped, "\n"); lines > 0 {
		s.pos.Line += lines
		s.pos.Column = len(skipped) - strings.LastIndexByte(skipped, '\n')
		s.fresh = true
	} else {
		s.pos.Column += n
	}
	return skipped
}

// token returns the next token, or false at the end and after an error.
func (s *scanner) token() (t token, ok bool) {
	if !s.space() || s.at == len(s.text) {
		return t, false
	}
	t = token{kind: mark, pos: s.pos}
	rest := s.text[s.at:]
	n := 1
	switch c := rest[0]; {
	case wordByte(c):
		t.kind = word
		for n < len(rest) && wordByte(rest[n]) {
			n++
		}
	case c == '"' || c == '\'':
		t.kind = quote
		if n = quoted(rest); n == 0 {
			s.errors.add(t.pos, "the quote has no end on its line")
			return t, false
		}
	case strings.HasPrefix(rest, "..."):
		n = 3
	case c < ' ' || c > '~':
		s.errors.add(t.pos, "the byte %#x is no part of a name", c)
		return t, false
	}
	t.text = s.skip(n)
	return t, true
}

// space skips spaces and comments. It returns false after an error.
func (s *scanner) space() bool {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case strings.ContainsRune(" \t\r\n\f\v", rune(rest[0])):
			s.skip(1)
		case strings.HasPrefix(rest, "\\\n"):
			fresh := s.fresh
			s.skip(2)
			s.fresh = fresh
		case strings.HasPrefix(rest, "//"):
			s.skip(lineLength(rest))
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				s.errors.add(s.pos, "the comment has no end")
				return false
			}
			fresh := s.fresh
			s.skip(2 + n + 2)
			s.fresh = fresh
		default:
			return true
		}
	}
	return true
}

// lineLength is the length of a text up to the end of its line.
func lineLength(text string) int {
	if n := strings.IndexByte(text, '\n'); n >= 0 {
		return n
	}
	return len(text)
}

// quoted returns the length of the quote with which a text begins, or 0 if it has no end.
func quoted(text string) int {
	for i := 1; i < lineLength(text); i++ {
		switch text[i] {
		case text[0]:
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// directive follows a line of the preprocessor, after its #.
func (s *scanner) directive(pos Pos) {
	s.fresh = false
	name, ok := s.onLine()
	switch {
	case !ok: // "#" alone does nothing
	case name.text == "pragma" || name.text == "ident" || name.text == "!":
		// What follows need not be tokens.
		for s.skip(lineLength(s.text[s.at:])); strings.HasSuffix(s.text[:s.at], "\\") && s.at < len(s.text); {
			s.skip(1)
			s.skip(lineLength(s.text[s.at:]))
		}
	case name.text == "define":
		s.define(name, s.line())
	case name.text == "undef":
		for _, t := range s.line() {
			delete(s.macros, t.text)
		}
	case name.text == "line":
		s.moved(pos, s.line())
	case name.text[0] >= '0' && name.text[0] <= '9':
		s.moved(pos, append([]token{name}, s.line()...))
	default:
		s.errors.add(pos, "#%s needs the C preprocessor: %s", name.text, preprocess)
	}
}

// onLine returns the next token, or false if it is not on this line.
func (s *scanner) onLine() (t token, ok bool) {
	if !s.space() || s.fresh {
		return t, false
	}
	return s.token()
}

// line returns the tokens of the rest of a line.
func (s *scanner) line() (line []token) {
	for {
		t, ok := s.onLine()
		if !ok {
			return line
		}
		line = append(line, t)
	}
}

// define keeps a macro.
func (s *scanner) define(directive token, line []token) {
	if len(line) == 0 || line[0].kind != word {
		s.errors.add(directive.pos, "#define takes a name")
		return
	}
	name := line[0]
	after := name.pos
	after.Column += len(name.text)
	if len(line) > 1 && line[1].text == "(" && line[1].pos == after {
		s.errors.add(name.pos, "the macro %s has parameters, which needs the C preprocessor: %s", name.text, preprocess)
		return
	}
	s.macros[name.text] = line[1:]
}

// moved follows "# LINE "FILE"", which is about the line after it. The scanner may have come
// further than that already.
func (s *scanner) moved(from Pos, line []token) {
	if len(line) == 0 {
		return
	}
	number, err := strconv.ParseUint(line[0].text, 10, 31)
	if err != nil {
		return
	}
	s.pos.Line = max(0, int(number)+s.pos.Line-from.Line-1)
	if len(line) > 1 && line[1].kind == quote {
		file, err := strconv.Unquote(line[1].text)
		if err == nil && strconv.Quote(file) == line[1].text { // no line of its own in a comment
			s.pos.File = file
		}
	}
}

// expand appends what a word stands for. A macro is not expanded within itself. Every macro
// counts, since even those that become nothing take time.
func (s *scanner) expand(to []token, t token, pos Pos, within []string) []token {
	body, found := s.macros[t.text]
	if t.kind != word || !found || slices.Contains(within, t.text) {
		t.pos = pos
		return append(to, t)
	}
	within = append(within, t.text)
	for _, part := range body {
		if s.expanded++; s.expanded > maxExpansion {
			if len(*s.errors) == 0 {
				s.errors.add(pos, "the macro %s becomes more than %d words", within[0], maxExpansion)
			}
			return to
		}
		to = s.expand(to, part, pos, within)
	}
	return to
}
