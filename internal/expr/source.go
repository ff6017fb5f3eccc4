package expr

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

// Tree returns the Go syntax of an expression, in which each duration such as 1.5ms is an
// identifier of as many underscores. Names and types are not checked. If the expression is
// wrong, Tree returns an *Error.
func Tree(src string) (ast.Expr, *token.File, error) {
	tree, file, _, err := scan(src)
	return tree, file, err
}

// scan is Tree, and returns the durations by their byte offsets.
func scan(src string) (tree ast.Expr, file *token.File, durations map[int]int64, err error) {
	words := split(src)
	for _, w := range words {
		if w.Token == token.COMMENT && !w.wrong {
			return nil, nil, nil, &Error{Src: src, Pos: w.pos, Msg: "an expression cannot have a comment"}
		}
	}
	text, durations, err := blank(src, words)
	if err != nil {
		return nil, nil, nil, err
	}
	fset := token.NewFileSet()
	tree, err = parser.ParseExprFrom(fset, "", text, parser.SkipObjectResolution)
	if err != nil {
		at := 0
		if list, ok := err.(scanner.ErrorList); ok && len(list) > 0 {
			at = list[0].Pos.Offset
		}
		return nil, nil, nil, &Error{
			Src: src, Pos: min(max(at, 0), len(src)), Msg: misplaced(src, words, at),
		}
	}
	return tree, fset.File(tree.Pos()), durations, nil
}

// word is a token of an expression.
type word struct {
	token.Token
	pos, end int
	text     string
	wrong    bool // whether Go has no such token
}

// split returns the tokens of an expression. The last one is its end.
func split(src string) (words []word) {
	wrong := false
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, []byte(src), func(token.Position, string) { wrong = true }, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		w := word{Token: tok, pos: file.Offset(pos), text: text, wrong: wrong}
		if text == "" {
			w.text = tok.String()
		}
		w.end = min(w.pos+len(w.text), len(src))
		words, wrong = append(words, w), false
		if tok == token.EOF {
			return words
		}
	}
}

var (
	// durationLiteral is time.ParseDuration's format without a sign.
	durationLiteral = lazyregexp.New(`^(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+$`)
	durationPart    = lazyregexp.New(`([0-9.]+)([^0-9.]+)`)
)

var durationUnits = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
}

// blank replaces each duration in an expression by underscores, and returns the durations by
// their byte offsets.
func blank(src string, words []word) (text string, durations map[int]int64, err error) {
	text, durations = src, map[int]int64{}
	for i := 0; i < len(words); i++ {
		first := words[i]
		if first.Token != token.INT && first.Token != token.FLOAT ||
			i > 0 && words[i-1].Token == token.IDENT && words[i-1].end == first.pos {
			continue
		}
		end := first.end
		for ; i+1 < len(words) && words[i+1].pos == end && isPart(words[i+1].Token); i++ {
			end = words[i+1].end
		}
		if end == first.end {
			continue // a number
		}
		d, problem := duration(src[first.pos:end])
		if problem != "" {
			return "", nil, &Error{Src: src, Pos: first.pos, Msg: problem}
		}
		durations[first.pos] = d
		text = text[:first.pos] + strings.Repeat("_", end-first.pos) + text[end:]
	}
	return text, durations, nil
}

// isPart reports whether a token can be a part of a duration after its first number.
func isPart(t token.Token) bool { return t == token.IDENT || t == token.INT || t == token.FLOAT }

// duration returns the nanoseconds of a duration, or the reason why it is invalid.
func duration(text string) (nanoseconds int64, problem string) {
	if !durationLiteral().MatchString(text) {
		return 0, fmt.Sprintf("%s is neither a number nor a duration such as 1ms or 2.5s; the units of durations are ns, us, ms, s, m and h", cut(text))
	}
	sum := constant.MakeInt64(0)
	for _, part := range durationPart().FindAllStringSubmatch(text, -1) {
		number, unit := constant.MakeFromLiteral(part[1], token.FLOAT, 0), constant.MakeInt64(
			int64(durationUnits[part[2]]),
		)
		sum = constant.BinaryOp(sum, token.ADD, constant.BinaryOp(number, token.MUL, unit))
	}
	whole := constant.ToInt(sum)
	if whole.Kind() != constant.Int {
		return 0, fmt.Sprintf("%s is not a whole number of nanoseconds", cut(text))
	}
	nanoseconds, exact := constant.Int64Val(whole)
	if !exact {
		return 0, fmt.Sprintf("the duration %s is too long: at most 292 years can be represented", cut(text))
	}
	return nanoseconds, ""
}
