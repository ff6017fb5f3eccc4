package expr

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"strings"
	"time"
	"unicode/utf8"
)

// checker resolves names and types.
type checker struct {
	src  string
	vars []Var
	file *token.File
}

func (c *checker) errorf(pos int, format string, args ...any) error {
	return &Error{Src: c.src, Pos: min(max(pos, 0), len(c.src)), Msg: fmt.Sprintf(format, args...)}
}

func (c *checker) offset(p token.Pos) int {
	if !p.IsValid() {
		return len(c.src)
	}
	return c.file.Offset(p)
}

// source returns the source of a part, cut for a message.
func (c *checker) source(e ast.Expr) string {
	s := c.src[c.offset(e.Pos()):c.offset(e.End())]
	const most = 40
	if len(s) > most {
		end := most
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "…"
	}
	return s
}

// expr checks a part of the expression that is depth deep.
func (c *checker) expr(e ast.Expr, depth int) (operand, error) {
	x, err := c.part(e, depth)
	if err != nil {
		return operand{}, err
	}
	x.text = c.source(e)
	return x, nil
}

func (c *checker) part(e ast.Expr, depth int) (operand, error) {
	pos := c.offset(e.Pos())
	if depth > MaxDepth {
		return operand{}, c.errorf(pos, "the expression is nested more than %d deep", MaxDepth)
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.expr(e.X, depth+1)
	case *ast.BasicLit:
		return c.literal(e, pos)
	case *ast.Ident:
		return c.name(e, pos)
	case *ast.SelectorExpr:
		return c.selector(e, pos)
	case *ast.UnaryExpr:
		return c.unary(e, depth)
	case *ast.BinaryExpr:
		return c.binary(e, depth)
	case *ast.CallExpr:
		return c.call(e, depth)
	}
	return operand{}, c.errorf(pos, "%s: filters consist of names, constants, operators and calls of a few functions", c.source(e))
}

func (c *checker) literal(e *ast.BasicLit, pos int) (operand, error) {
	v := constant.MakeFromLiteral(e.Value, e.Kind, 0)
	switch {
	case e.Kind == token.IMAG:
		return operand{}, c.errorf(pos, "complex numbers are not supported")
	case v.Kind() == constant.Unknown:
		return operand{}, c.errorf(pos, "the literal %s is invalid", c.source(e))
	}
	return c.constant(v, pos)
}

func (c *checker) name(e *ast.Ident, pos int) (operand, error) {
	for i, v := range c.vars {
		if v.Name == e.Name {
			return operand{typ: v.Type, tree: &Node{Op: Load, Type: v.Type, Var: i, Pos: pos}, pos: pos}, nil
		}
	}
	switch e.Name {
	case "true", "false":
		return operand{val: constant.MakeBool(e.Name == "true"), untyped: true, pos: pos}, nil
	case "len", "strings", "time":
		return operand{}, c.errorf(pos, "%s must be used as in len(s), strings.Contains(s, t) or time.Second", e.Name)
	case "_", "nil", "iota":
		return operand{}, c.errorf(pos, "%s cannot be used here", e.Name)
	}
	return operand{}, c.errorf(pos, "undefined: %s%s", e.Name, c.known())
}

// known lists the names for an error message.
func (c *checker) known() string {
	const most = 12
	var names []string
	for _, v := range c.vars {
		if len(names) == most {
			names = append(names, "…")
			break
		}
		names = append(names, v.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return "; the names are " + strings.Join(names, ", ")
}

var durations = map[string]time.Duration{
	"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
	"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

var durationType = Type{Kind: Int, Size: 8, Duration: true}

func (c *checker) selector(e *ast.SelectorExpr, pos int) (operand, error) {
	if x, ok := e.X.(*ast.Ident); ok {
		if d, ok := durations[e.Sel.Name]; ok && x.Name == "time" {
			return operand{typ: durationType, val: constant.MakeInt64(int64(d)), pos: pos}, nil
		}
		if x.Name == "strings" {
			if _, ok := functions[e.Sel.Name]; ok {
				return operand{}, c.errorf(pos, "strings.%s must be called", e.Sel.Name)
			}
		}
	}
	return operand{}, c.errorf(pos, "undefined: %s", c.source(e))
}

// functions are those of package strings.
var functions = map[string]Op{"HasPrefix": HasPrefix, "HasSuffix": HasSuffix, "Contains": Contains}

// callee returns which function a call is of, and checks the number of its arguments.
func (c *checker) callee(e *ast.CallExpr) (Op, error) {
	pos := c.offset(e.Pos())
	op, want := Len, 1
	switch f := e.Fun.(type) {
	case *ast.Ident:
		if f.Name != "len" {
			return 0, c.errorf(pos, "undefined function: %s; the functions are len, strings.HasPrefix, strings.HasSuffix and strings.Contains", f.Name)
		}
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		if op = functions[f.Sel.Name]; !ok || x.Name != "strings" || op == 0 {
			return 0, c.errorf(pos, "undefined function: %s; the functions are len, strings.HasPrefix, strings.HasSuffix and strings.Contains", c.source(f))
		}
		want = 2
	default:
		return 0, c.errorf(pos, "%s cannot be called", c.source(e.Fun))
	}
	if len(e.Args) != want || e.Ellipsis.IsValid() {
		return 0, c.errorf(c.offset(e.Rparen), "%s takes %s, not %d", c.source(e.Fun), [...]string{"", "one argument", "two arguments"}[want], len(e.Args))
	}
	return op, nil
}

func (c *checker) call(e *ast.CallExpr, depth int) (operand, error) {
	pos := c.offset(e.Pos())
	op, err := c.callee(e)
	if err != nil {
		return operand{}, err
	}
	var args [2]operand
	constants := true
	for i, arg := range e.Args {
		x, err := c.expr(arg, depth+1)
		if err != nil {
			return operand{}, err
		}
		if args[i], err = c.convert(x, Type{Kind: String}); err != nil {
			return operand{}, err
		}
		constants = constants && args[i].val != nil
	}
	if constants {
		return c.callConstant(op, args, pos)
	}
	n := &Node{Op: op, Type: Type{Kind: Bool, Size: 1}, X: args[0].node(), Pos: pos}
	if op == Len {
		n.Type = Type{Kind: Int, Size: 8}
	} else {
		n.Y = args[1].node()
	}
	return operand{typ: n.Type, tree: n, pos: pos}, nil
}

// callConstant calls a function with constants. The result has a type, as in Go.
func (c *checker) callConstant(op Op, args [2]operand, pos int) (operand, error) {
	x := constant.StringVal(args[0].val)
	if op == Len {
		return operand{typ: Type{Kind: Int, Size: 8}, val: constant.MakeInt64(int64(len(x))), pos: pos}, nil
	}
	match := text(op, x, constant.StringVal(args[1].val))
	return operand{typ: Type{Kind: Bool, Size: 1}, val: constant.MakeBool(match), pos: pos}, nil
}

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
	case token.ADD, token.SUB:
		fits = x.typed(Type.number, constant.Int, constant.Float)
	case token.XOR:
		fits = x.typed(Type.integer, constant.Int)
	default:
		return operand{}, c.errorf(pos, "the operator %v is not supported", e.Op)
	}
	if !fits {
		return operand{}, c.errorf(pos, "the operator %v is not defined for %s (%s)", e.Op, x.text, x.describe())
	}
	if x.val != nil {
		return c.unaryConstant(e.Op, x, pos)
	}
	if e.Op == token.ADD {
		return x, nil
	}
	return operand{typ: x.typ, tree: &Node{Op: unaries[e.Op], Type: x.typ, X: x.tree, Pos: pos}, pos: pos}, nil
}

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

// typed reports whether the operand's type satisfies a condition, or whether the operand is an
// untyped constant of one of these kinds.
func (x operand) typed(is func(Type) bool, kinds ...constant.Kind) bool {
	if !x.untyped {
		return is(x.typ)
	}
	for _, k := range kinds {
		if x.val.Kind() == k {
			return true
		}
	}
	return false
}

var binaries = map[token.Token]Op{
	token.LAND: And, token.LOR: Or,
	token.EQL: Equal, token.NEQ: NotEqual, token.LSS: Less, token.LEQ: LessEqual, token.GTR: Greater, token.GEQ: GreaterEqual,
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
		return operand{}, err
	}
	if op == ShiftLeft || op == ShiftRight {
		return c.shift(op, e.Op, x, y, pos)
	}
	// The untyped one takes the type of the other.
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
	return x.numeric() && t.number() || x.kind() == t.Kind
}

func (c *checker) mismatch(x, y operand, pos int) error {
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
		return operand{typ: x.typ, untyped: x.untyped && y.untyped, val: constant.BinaryOp(x.val, tok, y.val), pos: x.pos}, nil
	}
	n := &Node{Op: op, Type: Type{Kind: Bool, Size: 1}, X: x.node(), Y: y.node(), Pos: pos}
	return operand{typ: n.Type, tree: n, pos: x.pos}, nil
}

func (c *checker) compare(op Op, tok token.Token, x, y operand, pos int) (operand, error) {
	numbers := x.numeric() && y.numeric()
	if !numbers && x.kind() != y.kind() {
		return operand{}, c.mismatch(x, y, pos)
	}
	if x.kind() == Bool && op != Equal && op != NotEqual {
		return operand{}, c.undefined(tok, x, pos)
	}
	if x.val != nil && y.val != nil {
		return operand{val: constant.MakeBool(constant.Compare(x.val, tok, y.val)), untyped: true, pos: x.pos}, nil
	}
	n := &Node{Op: op, Type: Type{Kind: Bool, Size: 1}, X: x.node(), Y: y.node(), Pos: pos}
	return operand{typ: n.Type, tree: n, pos: x.pos}, nil
}

func (x operand) numeric() bool {
	return x.typed(Type.number, constant.Int, constant.Float)
}

func (x operand) integral() bool {
	return x.typed(Type.integer, constant.Int)
}

func (c *checker) arithmetic(op Op, tok token.Token, x, y operand, pos int) (operand, error) {
	for _, o := range []operand{x, y} {
		if !o.numeric() {
			return operand{}, c.undefined(tok, o, pos)
		}
	}
	if x.untyped && y.untyped {
		return c.untypedArithmetic(op, tok, x, y, pos)
	}
	t := common(x.typ, y.typ)
	if op > Div && t.Kind == Float {
		float := x
		if x.typ.Kind != Float || x.converted {
			float = y
		}
		return operand{}, c.undefined(tok, float, pos)
	}
	if op == Div && x.typ.Duration && y.typ.Duration && !y.converted {
		t.Duration = false
	}
	if (op == Div || op == Rem) && t.Kind != Float && y.val != nil && constant.Sign(y.val) == 0 {
		return operand{}, c.errorf(y.pos, "division by zero")
	}
	if x.val != nil && y.val != nil {
		return c.typedArithmetic(op, tok, t, x, y, pos)
	}
	n := &Node{Op: op, Type: t, X: x.as(t), Y: y.as(t), Pos: pos}
	return operand{typ: t, tree: n, pos: x.pos}, nil
}

// common returns the type of an arithmetic operation.
func common(x, y Type) Type {
	t := Type{Kind: x.Kind, Size: max(x.Size, y.Size), Duration: x.Duration || y.Duration}
	switch {
	case x == y:
		return x
	case x.Kind == y.Kind:
		return t
	case x.Kind == Float || y.Kind == Float:
		return Type{Kind: Float, Size: 8}
	}
	t.Kind, t.Size = Int, 8
	return t
}

// as returns the node of a number as an operand of a node of type t. Integers of all types have
// the same representation, and so do floats.
func (x operand) as(t Type) *Node {
	n := x.node()
	if t.Kind == Float && n.Type.integer() {
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
		if !o.integral() {
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
	n := &Node{Op: op, Type: x.typ, X: x.node(), Y: y.node(), Pos: pos}
	return operand{typ: x.typ, tree: n, pos: x.pos}, nil
}
