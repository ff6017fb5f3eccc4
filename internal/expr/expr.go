// Package expr checks and evaluates filters: Go expressions over the arguments of a probe.
//
//	status >= 500 && strings.HasPrefix(path, "/api/")
//	elapsed > 10*time.Millisecond || failed
//
// An expression consists of names, Go's literals, parentheses, and:
//
//	== != < <= > >=                  numbers and strings; == and != also bools
//	&& || !                          bools
//	+ - * /                          numbers
//	% & | ^ &^ << >>                 integers
//	len(s)                           the length of a string in bytes
//	strings.HasPrefix, HasSuffix, Contains
//	a.B, a[0]                        a variable whose name denotes a part of another variable
//	time.Nanosecond, Microsecond, Millisecond, Second, Minute, Hour
//	1ms, 2.5s, 1h30m                 the same as 1*time.Millisecond and so on
//	at > "2026-01-02T15:04:05Z"      a time in the notation of RFC 3339, beside a time.Time
//
// Everything has the same meaning as in Go. In particular, literals are untyped constants: they
// take the type of the other operand, and a constant that this type cannot represent is an
// error. Integer arithmetic wraps around. The differences are:
//
//   - Operands may have different numeric types. They are compared by their mathematical
//     values: an int8 of -1 is less than every uint64. For arithmetic, two unsigned integers
//     become the larger of their types, and so do two signed integers; an unsigned and a
//     signed integer become int64, and an integer and a float become float64.
//   - A division by zero and a shift by a negative count do not panic. They are a fault, and
//     the whole expression does not match, whatever operators surround the fault. && and ||
//     do not evaluate their right operand needlessly, so n != 0 && sum/n > 10 has no fault.
//   - Durations can be literals, in the format of time.ParseDuration without a sign. They have
//     the type time.Duration. A constant without a unit, other than 0, can be neither compared
//     with a duration nor added to one: elapsed > 10 is an error.
//   - A constant that is shifted by a variable is an int64, whatever the context.
//   - A quotient of two durations is an int64, not a duration.
//   - A time.Time is compared as its number of nanoseconds since the beginning of 1970 in UTC.
//     The difference of two is a duration, and a duration can be added or subtracted. With a time
//     that is not set, or is too early or too late for its number, this is a fault.
//
// The same checked tree serves a compiler: see [Expr.Root].
package expr

import (
	"errors"
	"fmt"
	"go/ast"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Expressions may come from anywhere, so their size is limited.
const (
	// MaxSource is the largest length of an expression in bytes.
	MaxSource = 4096
	// MaxDepth is the largest depth of an expression: of its parentheses, and of its
	// operators, where a || b || c is two deep.
	MaxDepth = 250
)

// Var is a name that an expression may use. If a list has several of the same name, the first
// applies. All hide Go's true and false. A name such as len(xs) stands for this call.
type Var struct {
	Name string
	Type Type
	// Constant is the value of a name that stands for an integer, or nil. Like a literal, it takes
	// the type of the other operand.
	Constant *Value
}

// Expr is a checked expression. It is immutable, and its methods may be called from any
// goroutine.
type Expr struct {
	// Root is the tree. Its parts must not be changed.
	Root *Node

	src    string
	single single
}

// String returns the source.
func (e *Expr) String() string { return e.src }

// Type returns the type of the expression's value.
func (e *Expr) Type() Type { return e.Root.Type }

// Error is an error in an expression, with its position.
type Error struct {
	Src string
	Pos int // a byte offset in Src, at most its length
	Msg string
	// Near means that the message names a variable that resembles the undefined one.
	Near bool
}

// With returns err with a remark after its message. If err is not an *Error, With returns it
// unchanged.
func With(err error, remark string) error {
	var wrong *Error
	if !errors.As(err, &wrong) {
		return err
	}
	with := *wrong
	with.Msg += " (" + remark + ")"
	return &with
}

// Nearer returns that of two errors of an expression, for different variables, that says more: one
// for variables that have all names, or else one that names a variable resembling an undefined one.
// If both say as much, it returns err.
func Nearer(err, other error) error {
	if nearness(other) > nearness(err) {
		return other
	}
	return err
}

func nearness(err error) int {
	var wrong *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong) && wrong.Near:
		return 2
	case wrong != nil && strings.HasPrefix(wrong.Msg, undefined):
		return 1
	}
	return 3
}

// Error returns the message, and below it the line of the source with a caret under the
// place.
//
//	undefined: pth (byte 17)
//		status >= 500 && pth == "/"
//		                 ^
func (e *Error) Error() string {
	pos := min(max(e.Pos, 0), len(e.Src))
	start := strings.LastIndexByte(e.Src[:pos], '\n') + 1
	line := e.Src[start:]
	if end := strings.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	var shown, caret strings.Builder
	for i, r := range line {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			r = '.' // even for a tab, so that the caret stays in its column
			if i < len(line) && line[i] == '\t' {
				r = ' '
			}
		}
		shown.WriteRune(r)
		if start+i < pos {
			caret.WriteByte(' ')
		}
	}
	return fmt.Sprintf("%s (byte %d)\n\t%s\n\t%s^", e.Msg, pos, shown.String(), caret.String())
}

// Parse checks an expression that may use the names of vars. If the expression is invalid,
// Parse returns an *Error.
func Parse(src string, vars []Var) (*Expr, error) {
	c := &checker{src: src, vars: vars}
	tree, err := c.parse()
	if err != nil {
		return nil, err
	}
	x, err := c.expr(tree, 0)
	if err != nil {
		return nil, err
	}
	root, err := c.settle(x)
	if err != nil {
		return nil, err
	}
	return &Expr{Root: root, src: src, single: newSingle(root)}, nil
}

// ParseFilter is Parse for an expression that must be a bool.
func ParseFilter(src string, vars []Var) (*Expr, error) {
	e, err := Parse(src, vars)
	if err != nil {
		return nil, err
	}
	if e.Type().Kind != Bool {
		return nil, &Error{Src: src, Pos: e.Root.Pos, Msg: fmt.Sprintf("the filter is of type %v and must be a condition%s", e.Type(), e.condition())}
	}
	return e, nil
}

// condition returns an example of a condition with the expression. A shell takes the rest of a
// condition without quotes.
func (e *Expr) condition() string {
	if e.Root.Op != Load || !e.Type().number() {
		return ""
	}
	return fmt.Sprintf(" in quotes, such as '%s > 0'", cut(e.src))
}

// ParseNumber is Parse for a number that can be added to others. what names the user of the number
// in the error, such as "a histogram".
func ParseNumber(src string, vars []Var, what string) (*Expr, error) {
	return parseFor(src, vars, what+" takes numbers", Type.amount)
}

// ParseInteger is ParseNumber for an integer.
func ParseInteger(src string, vars []Var, what string) (*Expr, error) {
	isInteger := func(t Type) bool { return t.IsInteger() && t.amount() }
	return parseFor(src, vars, what+" takes integers", isInteger)
}

// parseFor is Parse for a user that accepts some types.
func parseFor(src string, vars []Var, takes string, fits func(Type) bool) (*Expr, error) {
	e, err := Parse(src, vars)
	if err != nil {
		return nil, err
	}
	if t := e.Type(); !fits(t) {
		msg := fmt.Sprintf("%s, but this is a %v", takes, t)
		return nil, &Error{Src: src, Pos: e.Root.Pos, Msg: msg}
	}
	return e, nil
}

// parse parses the source without checking names and types.
func (c *checker) parse() (ast.Expr, error) {
	if len(c.src) > MaxSource {
		return nil, c.errorf(MaxSource, "the expression has %d bytes, but at most %d are allowed", len(c.src), MaxSource)
	}
	if strings.TrimSpace(c.src) == "" {
		return nil, c.errorf(len(c.src), "the expression is empty")
	}
	tree, file, durations, err := scan(c.src)
	c.file, c.durations = file, durations
	return tree, err
}

// settle gives an untyped constant its default type.
func (c *checker) settle(x operand) (*Node, error) {
	if !x.untyped {
		return x.node(), nil
	}
	y, err := c.convert(
		x, Type{Kind: x.kind(), Size: map[Kind]int{Bool: 1, Int: 8, Float: 8}[x.kind()]},
	)
	if err != nil {
		return nil, err
	}
	return y.node(), nil
}
