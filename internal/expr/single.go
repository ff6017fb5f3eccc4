package expr

// single is an expression that is an integer variable, or an operation on one and a constant, as
// most are. It is evaluated without the tree.
type single struct {
	variable int
	of       func(bits uint64) uint64 // nil if the expression is another one
}

// Variable returns the index of the variable of an expression that OfWord evaluates, or -1. That is
// an expression with one variable, an integer, which has no fault.
func (e *Expr) Variable() int {
	if e.single.of == nil {
		return -1
	}
	return e.single.variable
}

// OfWord evaluates an expression that has a Variable, whose bits are given, and returns the bits of
// its value.
func (e *Expr) OfWord(bits uint64) uint64 { return e.single.of(bits) }

// newSingle returns the single of a tree, if it is one.
func newSingle(n *Node) single {
	isInteger := func(n *Node, op Op) bool { return n != nil && n.Op == op && n.Type.IsInteger() }
	if isInteger(n, Load) {
		return single{n.Var, func(bits uint64) uint64 { return bits }}
	}
	if !isInteger(n.X, Load) || !isInteger(n.Y, Const) {
		return single{}
	}
	s, t, op, y := single{variable: n.X.Var}, n.Type, n.Op, n.Y.Value.bits
	isSigned, fits := n.X.Type.Kind == Int, n.Y.Type.Kind == n.X.Type.Kind || int64(y) >= 0
	switch {
	case op >= Equal && op <= GreaterEqual && fits && isSigned:
		s.of = comparison(op, int64(y))
	case op >= Equal && op <= GreaterEqual && fits:
		s.of = comparison(op, y)
	case op == Rem && y != 0 && isSigned:
		s.of = func(x uint64) uint64 { return t.wrap(uint64(int64(x) % int64(y))) }
	case (op == Rem || op == Div) && y != 0, op >= Add && op <= Mul,
		op >= BitAnd && op <= BitAndNot:
		s.of = func(x uint64) uint64 { return t.integerOp(op, x, y) }
	}
	return s
}

// comparison returns the comparison of an integer with a constant.
func comparison[T int64 | uint64](op Op, y T) func(bits uint64) uint64 {
	switch op {
	case Equal:
		return func(x uint64) uint64 { return truth(T(x) == y) }
	case NotEqual:
		return func(x uint64) uint64 { return truth(T(x) != y) }
	case Less:
		return func(x uint64) uint64 { return truth(T(x) < y) }
	case LessEqual:
		return func(x uint64) uint64 { return truth(T(x) <= y) }
	case Greater:
		return func(x uint64) uint64 { return truth(T(x) > y) }
	}
	return func(x uint64) uint64 { return truth(T(x) >= y) }
}
