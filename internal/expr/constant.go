package expr

import (
	"go/constant"
	"go/token"
	"math"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Constants are exact, as the compiler's are. It limits them to 512 bits, and so do we,
// because an expression could otherwise fill the memory.
const (
	maxBits  = 512
	maxShift = 1023 - 1 + 52
)

// constant returns an untyped constant, if it is not too large.
func (c *checker) constant(v constant.Value, pos int) (operand, error) {
	switch v.Kind() {
	case constant.Int:
		if constant.BitLen(v) > maxBits {
			return operand{}, c.errorf(pos, "the constant is too large")
		}
	case constant.Unknown:
		return operand{}, c.errorf(pos, "the constant is too large or too small")
	case constant.Float:
		if f, _ := constant.Float64Val(v); math.IsInf(f, 0) {
			// The constant may still be part of an expression with a sensible result, but
			// not of a filter.
			return operand{}, c.errorf(pos, "the constant is too large")
		}
	}
	return operand{val: v, untyped: true, pos: pos}, nil
}

// convert converts an untyped constant to a type. A typed operand must have the type's kind.
func (c *checker) convert(x operand, t Type) (operand, error) {
	if !x.untyped {
		if x.typ.Kind != t.Kind {
			return operand{}, c.errorf(x.pos, "%s is of type %s, but must be a %v", x.text, x.describe(), t)
		}
		return x, nil
	}
	v, problem := represent(x.val, t)
	if problem != "" && t.Kind == String && x.character() {
		return operand{}, c.singleQuotes(x)
	}
	if problem != "" {
		return operand{}, c.errorf(x.pos, "%s (%s) %s %v", x.text, x.describe(), problem, t)
	}
	return operand{typ: t, val: v, converted: x.kind() != String, pos: x.pos, text: x.text}, nil
}

// character reports whether an operand is a constant in single quotes.
func (x operand) character() bool {
	return len(x.text) > 2 && x.text[0] == '\'' && x.text[len(x.text)-1] == '\''
}

// singleQuotes returns the error for a character in place of a text.
func (c *checker) singleQuotes(x operand) error {
	v, _ := constant.Int64Val(x.val)
	return c.errorf(x.pos, "write a string in double quotes: %q instead of %s", string(rune(v)), x.text)
}

// represent returns a constant as the type represents it, or the reason why the type cannot
// represent it.
func represent(v constant.Value, t Type) (_ constant.Value, problem string) {
	of := operand{val: v, untyped: true}.kind()
	switch {
	case of == String && t.Unit == kind.Moment:
		n, err := kind.ParseTime(constant.StringVal(v))
		if err != nil {
			return nil, "is not in the notation of \"2006-01-02T15:04:05Z\", and no"
		}
		return constant.MakeInt64(n), ""
	case Type{Kind: of}.number() != t.number(), !t.number() && of != t.Kind:
		return nil, "is not a"
	case !t.number():
		return v, ""
	case t.Kind == Float:
		return float(v, t.Size)
	}
	i := constant.ToInt(v)
	if i.Kind() != constant.Int {
		return nil, "would be truncated to"
	}
	if !holds(i, t) {
		return nil, "overflows"
	}
	return i, ""
}

// float rounds a constant to a float of that size.
func float(v constant.Value, size int) (_ constant.Value, problem string) {
	v = constant.ToFloat(v)
	f, _ := constant.Float64Val(v)
	if size == 4 {
		single, _ := constant.Float32Val(v)
		f = float64(single)
	}
	if math.IsInf(f, 0) {
		return nil, "overflows"
	}
	return constant.MakeFloat64(f), ""
}

// holds reports whether an integer type can represent an integer.
func holds(v constant.Value, t Type) bool {
	bits := 8 * t.Size
	if t.Kind == Uint {
		return constant.Sign(v) >= 0 && constant.BitLen(v) <= bits
	}
	if constant.Sign(v) < 0 { // -128 needs as many bits as 127
		v = constant.BinaryOp(v, token.ADD, constant.MakeInt64(1))
	}
	return constant.BitLen(v) < bits
}

// result returns a constant that was computed at pos. A typed constant must fit its type.
func (c *checker) result(t Type, untyped bool, v constant.Value, start, pos int) (operand, error) {
	if untyped {
		x, err := c.constant(v, pos)
		x.pos = start
		return x, err
	}
	w, problem := represent(v, t)
	if problem != "" {
		return operand{}, c.errorf(pos, "the constant %s %v", problem, t)
	}
	return operand{typ: t, val: w, pos: start}, nil
}

func (c *checker) shiftConstant(tok token.Token, x, y operand, pos int) (operand, error) {
	n, exact := constant.Uint64Val(constant.ToInt(y.val))
	if !exact || n > maxShift {
		return operand{}, c.errorf(y.pos, "the shift count %s is too large", y.text)
	}
	return c.result(
		x.typ, x.untyped, constant.Shift(constant.ToInt(x.val), tok, uint(n)), x.pos, pos,
	)
}
