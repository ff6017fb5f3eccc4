package dlang

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

type kind int

const (
	end   kind = iota
	word       // an identifier, a keyword, or a number
	mark       // a character, or "..."
	quote      // a string or a character in quotes
)

type token struct {
	kind kind
	text string
	pos  Pos
}

// maxExpansion is the maximum number of tokens of an expanded macro.
const maxExpansion = 1000

// preprocess is a command line for files that need the full C preprocessor.
const preprocess = "cpp FILE.d | stapsdt generate --out FILE.go -"

// scanner splits a text into tokens. It obeys the line markers of the C preprocessor, so that
// it can read the preprocessor's output, and errors have positions in the original file.
type scanner struct {
	text   string
	at     int
	pos    Pos
	fresh  bool // whether this line has had only space so far
	macros map[string][]token
	tokens []token
	errors *Errors

	expanded int // the number of macro words since the last word of the text
}

// scan returns the tokens of a file, with macros expanded and an end. It stops at the first
// error.
func scan(file, text string, errors *Errors) []token {
	s := &scanner{
		text: text, pos: Pos{Filename: file, Line: 1, Column: 1}, fresh: true,
		macros: map[string][]token{}, errors: errors,
	}
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

var (
	// blank matches a space, a line that goes on, or a comment.
	blank = lazyregexp.New(`^(?:[ \t\r\n\f\v]|\\\n|//[^\n]*|(?s:/\*.*?\*/))`)
	// lexeme matches a token. If a quote has no end, it matches its first byte.
	lexeme = lazyregexp.New(`^(?:\w+|"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'|\.\.\.|[!-~])`)
	// anything matches the rest of a line, and its continuation lines.
	anything = lazyregexp.New(`^(?:\\\n|[^\n])*`)
)

// skip skips the text that matches here, and returns it.
func (s *scanner) skip(what *regexp.Regexp) string {
	skipped := what.FindString(s.text[s.at:])
	s.at += len(skipped)
	if lines := strings.Count(skipped, "\n"); lines > 0 {
		s.pos.Line += lines
		s.pos.Column = len(skipped) - strings.LastIndexByte(skipped, '\n')
	} else {
		s.pos.Column += len(skipped)
	}
	return skipped
}

func (s *scanner) space() {
	for skipped := s.skip(blank()); skipped != ""; skipped = s.skip(blank()) {
		s.fresh = s.fresh || skipped == "\n"
	}
}

// token returns the next token, or false at the end and after an error.
func (s *scanner) token() (t token, ok bool) {
	s.space()
	rest := s.text[s.at:]
	if rest == "" {
		return t, false
	}
	t = token{kind: mark, pos: s.pos}
	t.text = s.skip(lexeme())
	switch {
	case t.text == "":
		add(s.errors, t.pos, "the byte %#x cannot be part of a name", rest[0])
	case strings.HasPrefix(rest, "/*"):
		add(s.errors, t.pos, "the comment has no end")
	case t.text == `"` || t.text == "'":
		add(s.errors, t.pos, "the quote has no end on its line")
	case strings.Contains(`"'`, t.text[:1]):
		t.kind = quote
	case t.text[0] == '_' || t.text[0] >= '0' && t.text[0] <= '9' || t.text[0]|0x20 >= 'a' &&
		t.text[0]|0x20 <= 'z':
		t.kind = word
	}
	return t, len(*s.errors) == 0
}

// directive handles a line of the preprocessor, after its #.
func (s *scanner) directive(pos Pos) {
	s.fresh = false
	name, ok := s.onLine()
	switch {
	case !ok: // "#" alone does nothing
	case name.text == "pragma" || name.text == "ident" || name.text == "!":
		s.skip(anything()) // the rest may not consist of tokens
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
		add(s.errors, pos, "#%s needs the C preprocessor: %s", name.text, preprocess)
	}
}

// onLine returns the next token, or false if it is not on this line.
func (s *scanner) onLine() (t token, ok bool) {
	if s.space(); s.fresh {
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

func (s *scanner) define(directive token, line []token) {
	if len(line) == 0 || line[0].kind != word {
		add(s.errors, directive.pos, "#define takes a name")
		return
	}
	name := line[0]
	after := name.pos
	after.Column += len(name.text)
	if len(line) > 1 && line[1].text == "(" && line[1].pos == after {
		add(s.errors, name.pos, "the macro %s has parameters, which needs the C preprocessor: %s", name.text, preprocess)
		return
	}
	s.macros[name.text] = line[1:]
}

// moved handles "# LINE "FILE"", which gives the position of the next line. The scanner may already be
// beyond that line.
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
		if err == nil &&
			text.Printable(file) == file { // no line of its own in a comment of the code
			s.pos.Filename = file
		}
	}
}

// expand appends the tokens for which a word stands. A macro is not expanded within itself. Every
// macro counts, because even an empty one takes time.
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
				add(s.errors, pos, "the macro %s becomes more than %d words", within[0], maxExpansion)
			}
			return to
		}
		to = s.expand(to, part, pos, within)
	}
	return to
}
