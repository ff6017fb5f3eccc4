// Package kind defines the kinds of arguments. Recordings, sockets, pages, expressions and
// outputs look up the properties of a kind here.
package kind

import (
	"cmp"
	"strconv"
)

// Kind is the kind of an argument's value. The numbers are those of recordings and of
// stapsdt.Kind.
type Kind uint8

// The kinds.
const (
	Int64 Kind = iota + 1
	Uint64
	Float64 // the bits of a float64, or of a float32 if the type is Float32
	String
	Bool
	Duration
	Pointer
	Time
)

// Class groups the kinds by the operations that their values allow.
type Class uint8

// The classes.
const (
	Invalid Class = iota
	Truth
	Int
	Uint
	Float
	Text
)

// Unit is the unit that a number counts.
type Unit uint8

// The units.
const (
	None Unit = iota
	Nanoseconds
	Address // of a byte in memory
	Moment  // nanoseconds since the beginning of 1970 in UTC
)

// IsAmount reports whether numbers that count the unit can be added up. Others are points, which
// have a difference, to which it can be added.
func (u Unit) IsAmount() bool { return u != Moment }

// Diff returns the unit of the difference of two numbers that count the unit, and of any other
// result of amounts.
func (u Unit) Diff() Unit {
	switch u {
	case Address:
		return None
	case Moment:
		return Nanoseconds
	}
	return u
}

// Plus returns the unit of a sum. ok is false if the numbers cannot be added.
func (u Unit) Plus(v Unit) (sum Unit, ok bool) {
	switch {
	case !u.IsAmount():
		return u, v == u.Diff()
	case !v.IsAmount():
		return v, u == v.Diff()
	}
	return cmp.Or(u.Diff(), v.Diff()), true
}

// Minus returns the unit of the difference of numbers that may count different units. ok is false
// if they have none.
func (u Unit) Minus(v Unit) (diff Unit, ok bool) {
	if !v.IsAmount() {
		return u.Diff(), u == v
	}
	return u.Plus(v)
}

// Row holds the properties of a kind.
type Row struct {
	Name  string // the type in Go that holds all values
	Class Class
	Unit  Unit
	// Size is the size of all values in bytes, or 0 if it depends on the type.
	Size int
	// Sent is the name of the type in a page's list of probes, if the name does not depend on the
	// size.
	Sent string
}

// TimeName is the name of the type of moments in Go.
const TimeName = "time.Time"

// Rows are the rows of the kinds, by their numbers.
var Rows = [...]Row{
	Int64:    {Name: "int64", Class: Int},
	Uint64:   {Name: "uint64", Class: Uint},
	Float64:  {Name: "float64", Class: Float},
	String:   {Name: "string", Class: Text, Sent: "string"},
	Bool:     {Name: "bool", Class: Truth, Size: 1, Sent: "bool"},
	Duration: {Name: "time.Duration", Class: Int, Unit: Nanoseconds, Size: 8, Sent: "time.Duration"},
	Pointer:  {Name: "uintptr", Class: Uint, Unit: Address, Sent: "pointer"},
	Time:     {Name: TimeName, Class: Int, Unit: Moment, Size: 8, Sent: TimeName},
}

// Row returns the row of a kind. The row of an unknown kind has no class.
func (k Kind) Row() *Row {
	if int(k) < len(Rows) {
		return &Rows[k]
	}
	return &Rows[0]
}

// Of returns the kind of the values of a class that count a unit, or 0.
func Of(c Class, u Unit) Kind {
	for k := range Rows {
		if Rows[k].Class == c && Rows[k].Unit == u {
			return Kind(k)
		}
	}
	return 0
}

// The types of arguments that are not sizes. The numbers are the same as of stapsdt.ArgType. A size
// is negative for signed integers. Type64 of floats is TypeFloat32 + 4.
const (
	TypeString  = 16
	typeFloat   = 32
	TypeFloat32 = typeFloat + 4
)

// Type returns the type of values of the class with a size in bytes.
func (c Class) Type(size int) int8 {
	switch c {
	case Int:
		return int8(-size)
	case Float:
		return int8(typeFloat + size)
	case Text:
		return TypeString
	}
	return int8(size)
}

// Size returns the size in bytes of values of the class with a type, or 0 for texts and for a type
// that no value of the class has.
func (c Class) Size(typ int8) int {
	size := int(typ)
	switch c {
	case Invalid:
		return 0
	case Int:
		size = -size
	case Float:
		size -= typeFloat
		if size < 4 {
			return 0
		}
	case Truth: // of any sign
		if size == 1 || size == -1 {
			return 1
		}
		return 0
	}
	if c == Text || size != 1 && size != 2 && size != 4 && size != 8 {
		return 0
	}
	return size
}

// Type returns the type of values of the kind with a size in bytes.
func (k Kind) Type(size int) int8 { return k.Row().Class.Type(size) }

// Fits reports whether arguments of a kind can have a type.
func (k Kind) Fits(typ int8) bool {
	switch row := k.Row(); {
	case row.Class == Text:
		return typ == TypeString
	case row.Size != 0:
		return row.Class.Size(typ) == row.Size
	default:
		return row.Class.Size(typ) > 0
	}
}

// Known returns the kind. For a kind of a later version, which has no row here, it returns the
// kind of the same values without their unit, or 0.
func (k Kind) Known(typ int8) Kind {
	if int(k) < len(Rows) {
		return k
	}
	for known := range Rows {
		if Rows[known].Unit == None && Kind(known).Fits(typ) {
			return Kind(known)
		}
	}
	return 0
}

// Sized returns the name in Go of the type of numbers of a class and a size in bytes.
func (c Class) Sized(size int) string {
	name := "uint"
	switch c {
	case Int:
		name = "int"
	case Float:
		name = "float"
	}
	return name + strconv.Itoa(8*size)
}

// Sent returns the name of a kind and a type in a page's list of probes.
func (k Kind) Sent(typ int8) string {
	row := k.Row()
	if row.Sent != "" {
		return row.Sent
	}
	return row.Class.Sized(row.Class.Size(typ))
}

// UnitOf returns what values of the class count that have a type in Go, by the type's name and its
// size in bytes.
func (c Class) UnitOf(name string, size int) Unit {
	for k := range Rows {
		if Rows[k].Class == c && Rows[k].Sent == name && Rows[k].Size == size {
			return Rows[k].Unit
		}
	}
	return None
}

// Received returns the kind and the type that a page's list names. ok is false if there are none.
func Received(name string) (k Kind, typ int8, ok bool) {
	for k := range Kind(len(Rows)) {
		for _, size := range [...]int{8, 4, 2, 1} {
			if typ := Rows[k].Class.Type(size); k.Fits(typ) && k.Sent(typ) == name {
				return k, typ, true
			}
		}
	}
	return 0, 0, false
}
