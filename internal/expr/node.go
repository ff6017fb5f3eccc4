package expr

import (
	"go/constant"
	"math"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Kind is the kind of an expression's value.
type Kind = kind.Class

// The kinds.
const (
	Invalid = kind.Invalid
	Bool    = kind.Truth
	Int     = kind.Int
	Uint    = kind.Uint
	Float   = kind.Float
	String  = kind.Text
)

// Type is the type of an expression's value.
type Type struct {
	Kind Kind
	// Size is the number of bytes of a number: 1, 2, 4 or 8. For a Float it is 4 or 8. Other
	// kinds ignore it.
	Size int
	// Unit is the unit that a number counts. A number of nanoseconds has 8 bytes.
	Unit kind.Unit
}

// TypeOf returns the type of the values of an argument, by its kind and its type in recordings.
func TypeOf(k kind.Kind, typ int8) Type {
	row := k.Row()
	return Type{row.Class, row.Class.Size(typ), row.Unit}
}

// String returns the type's name in Go.
func (t Type) String() string {
	switch row := kind.Of(t.Kind, t.Unit).Row(); {
	case t.Kind == Invalid:
		return "invalid type"
	case t.number() && row.Size == 0:
		return t.Kind.Sized(t.Size)
	default:
		return row.Name
	}
}

// WordValue returns the value of a number or a bool whose word in a record is given.
func WordValue(k Kind, word uint64) Value {
	if k == Bool {
		return BoolValue(word != 0)
	}
	return Value{bits: word}
}

// IsInteger reports whether values are integers.
func (t Type) IsInteger() bool { return t.Kind == Int || t.Kind == Uint }
func (t Type) number() bool    { return t.IsInteger() || t.Kind == Float }

// Value is a value of any type. The caller knows the type. A Value is made without allocating.
type Value struct {
	bits uint64
	text string
}

// IntValue returns the value of an Int.
func IntValue(v int64) Value { return Value{bits: uint64(v)} }

// UintValue returns the value of a Uint.
func UintValue(v uint64) Value { return Value{bits: v} }

// FloatValue returns the value of a Float, of either size.
func FloatValue(v float64) Value { return Value{bits: math.Float64bits(v)} }

// StringValue returns the value of a String.
func StringValue(v string) Value { return Value{text: v} }

// BoolValue returns the value of a Bool.
func BoolValue(v bool) Value {
	if v {
		return Value{bits: 1}
	}
	return Value{}
}

// Int returns the value of an Int.
func (v Value) Int() int64 { return int64(v.bits) }

// Uint returns the value of a Uint.
func (v Value) Uint() uint64 { return v.bits }

// Float returns the value of a Float.
func (v Value) Float() float64 { return math.Float64frombits(v.bits) }

// Text returns the value of a String.
func (v Value) Text() string { return v.text }

// Bool returns the value of a Bool.
func (v Value) Bool() bool { return v.bits != 0 }

// Op is the operation of a Node on its operands.
type Op uint8

// The operations. Unless stated otherwise, both operands have the type of the result, except
// for the size of an integer, and the result of an integer operation wraps around in the
// node's Type.
const (
	_       Op = iota
	Const      // Node.Value
	Load       // the value of the variable Node.Var
	ToFloat    // X, an integer, as a float64
	Moment     // X, a moment; a fault if it is at an end of its range, like a time that is not set

	Not        // !X
	Neg        // -X
	Complement // ^X

	And // X && Y, where Y is not evaluated if X is false
	Or  // X || Y, where Y is not evaluated if X is true

	// Comparisons have the type Bool. Their operands are two bools, two strings or two
	// numbers. Numbers may differ in kind and size: their mathematical values are compared.
	Equal
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual

	Add
	Sub
	Mul
	Div // a fault if Y is an integer and 0
	Rem // a fault if Y is 0
	BitAnd
	BitOr
	BitXor
	BitAndNot
	ShiftLeft  // Y is an integer of any type; a fault if Y is negative
	ShiftRight // like ShiftLeft

	// Functions of strings. Len is an int64, the others are Bools.
	Len       // the length of X
	HasPrefix // X begins with Y
	HasSuffix // X ends with Y
	Contains  // X contains Y
)

// Node is an operation of a checked expression. Its type, and the types of its operands, are
// as the Op requires.
type Node struct {
	Op   Op
	Type Type
	X, Y *Node // the operands, or nil
	// Var is the index of a Load's variable in the list that Parse was called with.
	Var int
	// Value is a Const's value. It fits the Type.
	Value Value
	// Pos is the byte offset in the source where an error message about the node would
	// point.
	Pos int
}

// operand is a checked part of an expression: a tree or a constant.
type operand struct {
	typ     Type
	tree    *Node          // nil if it is a constant
	val     constant.Value // nil if it is a tree
	untyped bool           // the constant has no type yet
	// converted means that the constant was untyped.
	converted bool
	named     bool // the constant has a name
	pos       int
	text      string // the source
}

// node returns the tree of a typed operand.
func (x operand) node() *Node {
	if x.tree != nil {
		return x.tree
	}
	n := &Node{Op: Const, Type: x.typ, Pos: x.pos}
	switch x.typ.Kind {
	case Bool:
		n.Value = BoolValue(constant.BoolVal(x.val))
	case String:
		n.Value = StringValue(constant.StringVal(x.val))
	case Int:
		v, _ := constant.Int64Val(x.val)
		n.Value = IntValue(v)
	case Uint:
		v, _ := constant.Uint64Val(x.val)
		n.Value = UintValue(v)
	case Float:
		v, _ := constant.Float64Val(x.val)
		n.Value = FloatValue(v)
	}
	return n
}

// describe returns the operand's type for an error message.
func (x operand) describe() string {
	if !x.untyped {
		return x.typ.String()
	}
	return "untyped " + map[Kind]string{Bool: "bool", String: "string", Int: "int", Float: "float"}[x.kind()]
}
