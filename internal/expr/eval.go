package expr

import (
	"cmp"
	"math"
	"strings"
)

// Bool evaluates a filter. get returns the value of a variable of the list that Parse was called
// with, of the type given there. fault reports a division by zero or a shift by a negative
// count. In this case, match is false.
//
// It allocates nothing, if get does not. An expression that is not a Bool never matches.
func (e *Expr) Bool(get func(i int) Value) (match, fault bool) {
	if e.Root.Type.Kind != Bool {
		return false, false
	}
	v, fault := e.Eval(get)
	return v.Bool() && !fault, fault
}

// Eval is Bool for an expression of any type. The value is meaningless after a fault.
func (e *Expr) Eval(get func(i int) Value) (v Value, fault bool) {
	if e.Root.Type.Kind == String {
		return e.Root.text(get), false
	}
	v.bits = e.Root.bits(get, &fault)
	return v, fault
}

// text evaluates a node that is a string: a constant or a variable.
func (n *Node) text(get func(i int) Value) Value {
	if n.Op == Const {
		return n.Value
	}
	return get(n.Var)
}

// bits evaluates a node that is not a string, and returns the bits of its value.
func (n *Node) bits(get func(i int) Value, fault *bool) uint64 {
	switch n.Op {
	case Const:
		return n.Value.bits
	case Load:
		return get(n.Var).bits
	case And:
		return truth(n.X.bits(get, fault) != 0 && !*fault && n.Y.bits(get, fault) != 0)
	case Or:
		return truth(n.X.bits(get, fault) != 0 || !*fault && n.Y.bits(get, fault) != 0)
	}
	if n.X.Type.Kind == String {
		return n.ofTexts(get)
	}
	x := n.X.operand(get, fault)
	switch n.Op {
	case Not:
		return truth(x == 0)
	case Neg:
		if n.Type.Kind == Float {
			return math.Float64bits(-math.Float64frombits(x))
		}
		return n.Type.wrap(-x)
	case Complement:
		return n.Type.wrap(^x)
	case ToFloat:
		if n.X.Type.Kind == Uint {
			return math.Float64bits(float64(x))
		}
		return math.Float64bits(float64(int64(x)))
	case Moment:
		*fault = *fault || int64(x) == math.MinInt64 || int64(x) == math.MaxInt64
		return x
	}
	y := n.Y.operand(get, fault)
	switch {
	case n.Op >= Equal && n.Op <= GreaterEqual:
		return truth(compare(n.Op, n.X.Type.Kind, Value{bits: x}, n.Y.Type.Kind, Value{bits: y}))
	case n.Type.Kind == Float:
		return n.Type.float(n.Op, math.Float64frombits(x), math.Float64frombits(y))
	case n.Op == ShiftLeft || n.Op == ShiftRight:
		if n.Y.Type.Kind == Int && int64(y) < 0 {
			*fault = true
			return 0
		}
		return n.Type.shift(n.Op, x, y)
	case (n.Op == Div || n.Op == Rem) && y == 0:
		*fault = true
		return 0
	}
	return n.Type.integerOp(n.Op, x, y)
}

// operand is bits, and does not call it for a constant.
func (n *Node) operand(get func(i int) Value, fault *bool) uint64 {
	if n.Op == Const {
		return n.Value.bits
	}
	return n.bits(get, fault)
}

// ofTexts evaluates a node whose operands are strings.
func (n *Node) ofTexts(get func(i int) Value) uint64 {
	x := n.X.text(get)
	if n.Op == Len {
		return uint64(len(x.text))
	}
	y := n.Y.text(get)
	if n.Op >= HasPrefix {
		return truth(text(n.Op, x.text, y.text))
	}
	return truth(compare(n.Op, String, x, String, y))
}

// truth returns the bits of a Bool.
func truth(v bool) uint64 { return BoolValue(v).bits }

// wrap reduces the result of an integer operation to the type.
func (t Type) wrap(bits uint64) uint64 {
	unused := uint(64-8*t.Size) % 64
	if t.Kind == Int {
		return uint64(int64(bits<<unused) >> unused)
	}
	return bits << unused >> unused
}

func (t Type) integerOp(op Op, x, y uint64) uint64 {
	switch op {
	case Add:
		return t.wrap(x + y)
	case Sub:
		return t.wrap(x - y)
	case Mul:
		return t.wrap(x * y)
	case BitAnd:
		return t.wrap(x & y)
	case BitOr:
		return t.wrap(x | y)
	case BitXor:
		return t.wrap(x ^ y)
	case BitAndNot:
		return t.wrap(x &^ y)
	case Div:
		if t.Kind == Int {
			return t.wrap(uint64(int64(x) / int64(y)))
		}
		return t.wrap(x / y)
	case Rem:
		if t.Kind == Int {
			return t.wrap(uint64(int64(x) % int64(y)))
		}
		return t.wrap(x % y)
	}
	return 0
}

func (t Type) shift(op Op, x, n uint64) uint64 {
	switch {
	case op == ShiftLeft:
		return t.wrap(x << n)
	case t.Kind == Int:
		return uint64(int64(x) >> n)
	}
	return x >> n
}

// float computes in the precision of float64. For a float32 the result is rounded once more, which
// is the same as an operation on float32, because float64 has more than twice its bits.
func (t Type) float(op Op, x, y float64) uint64 {
	var v float64
	switch op {
	case Add:
		v = x + y
	case Sub:
		v = x - y
	case Mul:
		v = x * y
	case Div:
		v = x / y
	}
	if t.Size == 4 {
		v = float64(float32(v))
	}
	return math.Float64bits(v)
}

func text(op Op, x, y string) bool {
	switch op {
	case HasPrefix:
		return strings.HasPrefix(x, y)
	case HasSuffix:
		return strings.HasSuffix(x, y)
	}
	return strings.Contains(x, y)
}

// compare compares two values of kinds that may be compared. Only NaN has no order.
func compare(op Op, xk Kind, x Value, yk Kind, y Value) bool {
	if xk == Float && math.IsNaN(x.Float()) || yk == Float && math.IsNaN(y.Float()) {
		return op == NotEqual
	}
	order := order(xk, x, yk, y)
	switch op {
	case Equal:
		return order == 0
	case NotEqual:
		return order != 0
	case Less:
		return order < 0
	case LessEqual:
		return order <= 0
	case Greater:
		return order > 0
	}
	return order >= 0
}

// order returns a negative number if x is less than y, and a positive number if it is greater.
func order(xk Kind, x Value, yk Kind, y Value) int {
	switch {
	case xk == String:
		return strings.Compare(x.text, y.text)
	case xk == Float && yk == Float:
		return cmp.Compare(x.Float(), y.Float())
	case xk == Float:
		return -orderInteger(yk, y, x.Float())
	case yk == Float:
		return orderInteger(xk, x, y.Float())
	case xk == Int && yk == Int:
		return cmp.Compare(x.Int(), y.Int())
	case xk == Int && x.Int() < 0:
		return -1
	case yk == Int && y.Int() < 0:
		return 1
	}
	return cmp.Compare(x.bits, y.bits)
}

// orderInteger is order for an integer and a float that is not NaN. It is exact.
func orderInteger(k Kind, v Value, f float64) (order int) {
	whole, fraction := math.Modf(f)
	switch {
	case f >= 1<<64, k == Int && f >= 1<<63:
		return -1
	case f < -1<<63, k == Uint && f < 0:
		return 1
	case k == Int:
		order = cmp.Compare(v.Int(), int64(whole))
	default:
		order = cmp.Compare(v.Uint(), uint64(whole))
	}
	return cmp.Or(order, cmp.Compare(0, fraction))
}
