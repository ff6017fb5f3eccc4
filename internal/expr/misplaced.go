package expr

import (
	"cmp"
	"fmt"
	"go/token"
	"strings"
	"unicode/utf8"
)

// misplaced describes the error at the place in an expression at which Go's parser stopped.
func misplaced(src string, words []word, at int) string {
	if r, size := utf8.DecodeRuneInString(src[min(at, len(src)):]); size == 1 &&
		(r == 0 || r == utf8.RuneError) {
		return "the expression has a character that is not text"
	}
	i := len(words) - 1
	for i > 0 && words[i].pos > at {
		i--
	}
	for i > 0 && words[i].Token == token.EOF && words[i-1].Token == token.SEMICOLON &&
		words[i-1].text == "\n" {
		words = append(words[:i-1:i-1], words[i]) // a scanner ends a line that way
		i--
	}
	w, before := words[i], word{Token: token.ILLEGAL}
	if i > 0 {
		before = words[i-1]
	}
	for _, bad := range []word{w, before} { // an exponent without digits is noticed after it
		if bad.wrong {
			return bad.problem()
		}
	}
	for _, name := range []word{w, before} {
		if operator := connectives[name.text]; operator != "" && name.Token == token.IDENT {
			return fmt.Sprintf("%s is not an operator: use %s", name.text, operator)
		}
	}
	borrowed := cmp.Or(w.foreign(src, before), before.foreign(src, words[max(i-2, 0)]))
	if message := cmp.Or(borrowed, w.quoteless(src, before)); message != "" {
		return message
	}
	switch {
	case w.Token == token.ASSIGN || w.Token == token.DEFINE:
		return fmt.Sprintf("%s assigns, which is not possible here: use == to compare", w.text)
	case w.Token == token.EOF && !before.ends():
		return "an operand is missing at the end"
	case w.Token == token.EOF:
		return "the expression ends too early: a closing parenthesis or bracket is missing"
	case w.Token == token.SEMICOLON && w.text == "\n":
		return "an operator is missing at the end of the line"
	case before.Token == token.SEMICOLON && before.text == "\n":
		return fmt.Sprintf("a line cannot begin with %s: put an operator at the end of the line before", cut(w.text))
	case durationUnits[w.text] != 0 && (before.Token == token.INT || before.Token == token.FLOAT):
		return fmt.Sprintf("a duration has no space: %s%s instead of %s", before.text, w.text, cut(src[before.pos:w.end]))
	case w.begins() && before.ends():
		return fmt.Sprintf("an operator such as == or && is missing before %s", cut(w.text))
	case w.Token.IsOperator() && !w.begins() && !before.ends():
		return fmt.Sprintf("an operand is missing before %s", w.text)
	}
	return fmt.Sprintf("%s is not expected here", cut(w.text))
}

// begins reports whether an operand can begin with a word but not end with it.
func (w word) begins() bool {
	return w.Token.IsLiteral() || w.Token == token.LPAREN || w.Token == token.NOT
}

// ends reports whether an operand can end with a word.
func (w word) ends() bool {
	return w.Token.IsLiteral() || w.Token == token.RPAREN || w.Token == token.RBRACK ||
		w.Token == token.RBRACE
}

// problem describes why Go has no such token.
func (w word) problem() string {
	quote, _ := utf8.DecodeRuneInString(w.text)
	closed := len(w.text) > 1 && strings.HasSuffix(w.text, string(quote))
	switch {
	case w.Token == token.CHAR && closed && !strings.Contains(w.text, `\`):
		return fmt.Sprintf(`write a string in double quotes: "%s" instead of %s`, cut(w.text[1:len(w.text)-1]), cut(w.text))
	case (w.Token == token.CHAR || w.Token == token.STRING) && !closed:
		return fmt.Sprintf("the closing quote %c is missing", quote)
	case w.Token == token.CHAR || w.Token == token.STRING:
		return fmt.Sprintf(`%s has a backslash with an unknown meaning: \\ is a backslash`, cut(w.text))
	case w.Token == token.COMMENT:
		return "the comment has no end"
	case w.Token.IsLiteral():
		return fmt.Sprintf("%s is not a number", cut(w.text))
	case strings.ContainsRune("“”„‟«»‘’", quote):
		return fmt.Sprintf(`write a string in double quotes, ", instead of %c`, quote)
	case quote == '$':
		return "'$' is not expected here: a name has none"
	}
	return fmt.Sprintf("%q is not expected here", quote)
}

// cut shortens a part of the source for a message.
func cut(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	end := most
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
