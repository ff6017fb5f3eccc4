package expr

import (
	"go/ast"
	"go/constant"
	"go/token"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

var unaries = map[token.Token]Op{token.SUB: Neg, token.XOR: Complement, token.NOT: Not}

func (c *checker) unary(e *ast.UnaryExpr, depth int) (operand, error) {
	x, err := c.expr(e.X, depth+1)
	if err != nil {
		return operand{}, err
	}
	pos := c.offset(e.OpPos)
	fits := false
	switch e.Op {
	case token.NOT:
		fits = x.kind() == Bool
	case token.ADD:
		fits = x.numeric()
	case token.SUB:
		fits = x.numeric() && x.typ.Unit.IsAmount()
	case token.XOR:
		fits = x.integral() && x.typ.Unit.IsAmount()
	default:
		return operand{}, c.errorf(pos, "the operator %v is not supported", e.Op)
	}
	if !fits {
		return operand{}, c.errorf(pos, "the operator %v is not defined for %s (%s)", e.Op, x.text, x.describe())
	}
	if x.val != nil {
		bits := uint(0)
		if e.Op == token.XOR && x.typ.Kind == Uint {
			bits = uint(8 * x.typ.Size)
		}
		return c.result(x.typ, x.untyped, constant.UnaryOp(e.Op, x.val, bits), pos, pos)
	}
	if e.Op == token.ADD {
		return x, nil
	}
	typ := x.typ.computed()
	n := &Node{Op: unaries[e.Op], Type: typ, X: x.tree, Pos: pos}
	return operand{typ: typ, tree: n, pos: pos}, nil
}

// computed returns the type of what was computed from a value of the type.
func (t Type) computed() Type {
	t.Unit = t.Unit.Diff()
	return t
}

// amount reports whether values of the type can be added up.
func (t Type) amount() bool { return t.number() && t.Unit.IsAmount() }

// kind returns the operand's kind. An untyped number is an Int or a Float.
func (x operand) kind() Kind {
	if !x.untyped {
		return x.typ.Kind
	}
	switch x.val.Kind() {
	case constant.Bool:
		return Bool
	case constant.String:
		return String
	case constant.Int:
		return Int
	}
	return Float
}

func (x operand) numeric() bool  { return Type{Kind: x.kind()}.number() }
func (x operand) integral() bool { return Type{Kind: x.kind()}.IsInteger() }

var binaries = map[token.Token]Op{
	token.LAND: And, token.LOR: Or,
	token.EQL: Equal, token.NEQ: NotEqual, token.LSS: Less, token.LEQ: LessEqual,
	token.GTR: Greater, token.GEQ: GreaterEqual,
	token.ADD: Add, token.SUB: Sub, token.MUL: Mul, token.QUO: Div, token.REM: Rem,
	token.AND: BitAnd, token.OR: BitOr, token.XOR: BitXor, token.AND_NOT: BitAndNot,
	token.SHL: ShiftLeft, token.SHR: ShiftRight,
}

func (c *checker) binary(e *ast.BinaryExpr, depth int) (operand, error) {
	pos := c.offset(e.OpPos)
	op := binaries[e.Op]
	if op == 0 {
		return operand{}, c.errorf(pos, "the operator %v is not supported", e.Op)
	}
	x, err := c.expr(e.X, depth+1)
	if err != nil {
		return operand{}, err
	}
	y, err := c.expr(e.Y, depth+1)
	if err != nil {
		return operand{}, c.unquoted(e.Y, x, err)
	}
	if op == ShiftLeft || op == ShiftRight {
		return c.shift(op, e.Op, x, y, pos)
	}
	if takesUnits(op) {
		for _, o := range [][2]operand{{x, y}, {y, x}} {
			if err := c.unitless(o[0], o[1]); err != nil {
				return operand{}, err
			}
		}
	}
	// An untyped operand takes the type of the other.
	switch {
	case x.untyped && !y.untyped:
		if !fits(x, y.typ) {
			return operand{}, c.mismatch(x, y, pos)
		}
		x, err = c.convert(x, y.typ)
	case y.untyped && !x.untyped:
		if !fits(y, x.typ) {
			return operand{}, c.mismatch(x, y, pos)
		}
		y, err = c.convert(y, x.typ)
	}
	if err != nil {
		return operand{}, err
	}
	switch op {
	case And, Or:
		return c.logic(op, e.Op, x, y, pos)
	case Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual:
		return c.compare(op, e.Op, x, y, pos)
	}
	return c.arithmetic(op, e.Op, x, y, pos)
}

// fits reports whether an untyped constant is of a sort that a type can represent.
func fits(x operand, t Type) bool {
	isTime := x.kind() == String && t.Unit == kind.Moment
	return x.numeric() && t.number() || x.kind() == t.Kind || isTime
}

func (c *checker) mismatch(x, y operand, pos int) error {
	switch {
	case x.character() && y.kind() == String:
		return c.singleQuotes(x)
	case y.character() && x.kind() == String:
		return c.singleQuotes(y)
	}
	return c.errorf(pos, "mismatched types: %s is of type %s, and %s of type %s", x.text, x.describe(), y.text, y.describe())
}

func (c *checker) undefined(tok token.Token, x operand, pos int) error {
	if tok == token.ADD && x.kind() == String {
		return c.errorf(pos, "strings cannot be concatenated here")
	}
	return c.errorf(pos, "the operator %v is not defined for %s (%s)", tok, x.text, x.describe())
}

func (c *checker) logic(op Op, tok token.Token, x, y operand, pos int) (operand, error) {
	for _, o := range []operand{x, y} {
		if o.kind() != Bool {
			return operand{}, c.undefined(tok, o, pos)
		}
	}
	if x.val != nil && y.val != nil {
		return operand{
			typ: x.typ, untyped: x.untyped && y.untyped, val: constant.BinaryOp(x.val, tok, y.val),
			pos: x.pos,
		}, nil
	}
	return condition(op, x, y, pos), nil
}

// condition returns the operation of two operands whose result is a bool.
func condition(op Op, x, y operand, pos int) operand {
	n := &Node{Op: op, Type: Type{Kind: Bool, Size: 1}, X: x.node(), Y: y.node(), Pos: pos}
	return operand{typ: n.Type, tree: n, pos: x.pos}
}

func (c *checker) compare(op Op, tok token.Token, x, y operand, pos int) (operand, error) {
	numbers := x.numeric() && y.numeric()
	of, with := x.typ.Unit, y.typ.Unit
	mixed := of.IsAmount() != with.IsAmount() && of.Diff() == with.Diff() // a time and a duration
	if mixed || !numbers && x.kind() != y.kind() {
		return operand{}, c.mismatch(x, y, pos)
	}
	if x.kind() == Bool && op != Equal && op != NotEqual {
		return operand{}, c.undefined(tok, x, pos)
	}
	if x.val != nil && y.val != nil {
		return operand{
			val: constant.MakeBool(constant.Compare(x.val, tok, y.val)), untyped: true, pos: x.pos,
		}, nil
	}
	return condition(op, x, y, pos), nil
}

func (c *checker) arithmetic(op Op, tok token.Token, x, y operand, pos int) (operand, error) {
	for _, o := range []operand{x, y} {
		if !o.numeric() {
			return operand{}, c.undefined(tok, o, pos)
		}
	}
	if op > Div && (x.kind() == Float || y.kind() == Float) {
		float := x
		if x.kind() != Float || x.converted || x.untyped && y.kind() == Float {
			float = y
		}
		return operand{}, c.undefined(tok, float, pos)
	}
	unit, ok := op.unit(x, y)
	if !ok {
		return operand{}, c.errorf(pos, "the operator %v is not defined here: times have a difference, and a duration can be added or subtracted", tok)
	}
	t := common(x.typ, y.typ, unit)
	if (op == Div || op == Rem) && (t.Kind != Float || x.val != nil) && y.val != nil &&
		constant.Sign(y.val) == 0 {
		return operand{}, c.errorf(y.pos, "division by zero")
	}
	if x.val != nil && y.val != nil {
		if op == Div && x.integral() && y.integral() {
			tok = token.QUO_ASSIGN // package constant's name for it
		}
		return c.result(t, x.untyped, constant.BinaryOp(x.val, tok, y.val), x.pos, pos)
	}
	n := &Node{Op: op, Type: t, X: x.as(t), Y: y.as(t), Pos: pos}
	return operand{typ: t, tree: n, pos: x.pos}, nil
}

// unit returns the unit of the result of an arithmetic operation. ok is false if the operands have
// none.
func (op Op) unit(x, y operand) (u kind.Unit, ok bool) {
	of, with := x.typ.Unit, y.typ.Unit
	if op == Sub {
		u, ok = of.Minus(with)
		return u, ok && (with.IsAmount() || !x.converted && !y.converted)
	}
	u, ok = of.Plus(with)
	if op == Div && of == u && with == u && !y.converted {
		return kind.None, ok
	}
	return u, ok && (op == Add || of.IsAmount() && with.IsAmount())
}

// common returns the type of an arithmetic operation. Its unit gets lost if one of the numbers is a
// float.
func common(x, y Type, u kind.Unit) Type {
	t := Type{Kind: x.Kind, Size: max(x.Size, y.Size), Unit: u}
	switch {
	case x.Kind == y.Kind:
		return t
	case x.Kind == Float || y.Kind == Float:
		return Type{Kind: Float, Size: 8}
	}
	t.Kind, t.Size = Int, 8
	return t
}

// as returns the node of a number as an operand of an arithmetic node of type t. Integers of all
// types have the same representation, and so do floats.
func (x operand) as(t Type) *Node {
	n := x.node()
	if !x.typ.Unit.IsAmount() {
		return &Node{Op: Moment, Type: x.typ, X: n, Pos: x.pos}
	}
	if t.Kind == Float && n.Type.IsInteger() {
		return &Node{Op: ToFloat, Type: Type{Kind: Float, Size: 8}, X: n, Pos: x.pos}
	}
	return n
}

func (c *checker) shift(op Op, tok token.Token, x, y operand, pos int) (operand, error) {
	for _, o := range []*operand{&x, &y} {
		if o.untyped && o.val.Kind() == constant.Float {
			if v := constant.ToInt(o.val); v.Kind() == constant.Int {
				o.val = v // Go allows it: 1.0 << 3
			}
		}
		if !o.integral() || !o.typ.Unit.IsAmount() {
			return operand{}, c.undefined(tok, *o, pos)
		}
	}
	if y.val != nil {
		if constant.Sign(y.val) < 0 {
			return operand{}, c.errorf(y.pos, "negative shift count %s", y.text)
		}
		if x.val != nil {
			return c.shiftConstant(tok, x, y, pos)
		}
		if y.untyped {
			var err error
			if y, err = c.convert(y, Type{Kind: Uint, Size: 8}); err != nil {
				return operand{}, err
			}
		}
	}
	if x.untyped {
		var err error
		if x, err = c.convert(x, Type{Kind: Int, Size: 8}); err != nil {
			return operand{}, err
		}
	}
	typ := x.typ.computed()
	n := &Node{Op: op, Type: typ, X: x.node(), Y: y.node(), Pos: pos}
	return operand{typ: typ, tree: n, pos: x.pos}, nil
}
