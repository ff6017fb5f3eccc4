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
	v = e.Root.eval(get, &fault)
	return v, fault
}

func (n *Node) eval(get func(i int) Value, fault *bool) Value {
	switch n.Op {
	case Const:
		return n.Value
	case Load:
		return get(n.Var)
	case And:
		return BoolValue(n.X.eval(get, fault).Bool() && !*fault && n.Y.eval(get, fault).Bool())
	case Or:
		return BoolValue(n.X.eval(get, fault).Bool() || !*fault && n.Y.eval(get, fault).Bool())
	}
	x := n.X.eval(get, fault)
	switch n.Op {
	case Not:
		return BoolValue(!x.Bool())
	case Neg:
		if n.Type.Kind == Float {
			return FloatValue(-x.Float())
		}
		return n.Type.wrap(-x.bits)
	case Complement:
		return n.Type.wrap(^x.bits)
	case ToFloat:
		if n.X.Type.Kind == Uint {
			return FloatValue(float64(x.Uint()))
		}
		return FloatValue(float64(x.Int()))
	case Moment:
		*fault = *fault || x.Int() == math.MinInt64 || x.Int() == math.MaxInt64
		return x
	case Len:
		return IntValue(int64(len(x.text)))
	}
	y := n.Y.eval(get, fault)
	switch {
	case n.Op >= HasPrefix:
		return BoolValue(text(n.Op, x.text, y.text))
	case n.Op >= Equal && n.Op <= GreaterEqual:
		return BoolValue(compare(n.Op, n.X.Type.Kind, x, n.Y.Type.Kind, y))
	case n.Type.Kind == Float:
		return n.Type.float(n.Op, x.Float(), y.Float())
	case n.Op == ShiftLeft || n.Op == ShiftRight:
		if n.Y.Type.Kind == Int && y.Int() < 0 {
			*fault = true
			return Value{}
		}
		return n.Type.shift(n.Op, x, y.Uint())
	case (n.Op == Div || n.Op == Rem) && y.bits == 0:
		*fault = true
		return Value{}
	}
	return n.Type.integerOp(n.Op, x, y)
}

// wrap reduces the result of an integer operation to the type.
func (t Type) wrap(bits uint64) Value {
	unused := 64 - 8*t.Size
	if t.Kind == Int {
		return IntValue(int64(bits<<unused) >> unused)
	}
	return UintValue(bits << unused >> unused)
}

func (t Type) integerOp(op Op, x, y Value) Value {
	switch op {
	case Add:
		return t.wrap(x.bits + y.bits)
	case Sub:
		return t.wrap(x.bits - y.bits)
	case Mul:
		return t.wrap(x.bits * y.bits)
	case BitAnd:
		return t.wrap(x.bits & y.bits)
	case BitOr:
		return t.wrap(x.bits | y.bits)
	case BitXor:
		return t.wrap(x.bits ^ y.bits)
	case BitAndNot:
		return t.wrap(x.bits &^ y.bits)
	case Div:
		if t.Kind == Int {
			return t.wrap(uint64(x.Int() / y.Int()))
		}
		return t.wrap(x.bits / y.bits)
	case Rem:
		if t.Kind == Int {
			return t.wrap(uint64(x.Int() % y.Int()))
		}
		return t.wrap(x.bits % y.bits)
	}
	return Value{}
}

func (t Type) shift(op Op, x Value, n uint64) Value {
	switch {
	case op == ShiftLeft:
		return t.wrap(x.bits << n)
	case t.Kind == Int:
		return IntValue(x.Int() >> n)
	}
	return UintValue(x.bits >> n)
}

// float computes in the precision of float64. For a float32 the result is rounded once more, which
// is the same as an operation on float32, because float64 has more than twice its bits.
func (t Type) float(op Op, x, y float64) Value {
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
	return FloatValue(v)
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
