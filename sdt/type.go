package sdt

// Type is the type of an argument as DWARF describes it. Typedefs and qualifiers are
// resolved, except that a typedef gives its name. A type can refer to itself only through a
// pointer.
type Type struct {
	// Name is the name in the program's source: "int", "time.Duration", "request". It is
	// empty for pointers without a typedef and for anonymous structs.
	Name string
	Kind TypeKind
	// Size is in bytes.
	Size int64
	// Elem is the type that a pointer points to, or that of an array's elements. It is nil for
	// every other kind, and never nil for these.
	Elem *Type
	// Count is the number of an array's elements, or 0 if it is not known.
	Count int64
	// Fields are the fields of a struct, in their order. A struct that was only declared has
	// none.
	Fields []Field
}

// Field is a field of a struct.
type Field struct {
	Name string
	Type *Type
	// Offset is in bytes from the beginning of the struct.
	Offset int64
	// BitSize is 0 unless this is a bit field, which then begins BitOffset bits after
	// the beginning of the struct.
	BitOffset, BitSize int64
}

// TypeKind is the kind of a type's values.
type TypeKind uint8

// The kinds of types.
const (
	// KindOther is a type that is none of the following, such as void or a function.
	KindOther TypeKind = iota
	// KindBool, KindInt, KindUint and KindFloat are numbers of the type's Size. An
	// enumeration is a KindInt or a KindUint. An argument of a Go probe is a KindFloat if its
	// type has the name float32 or float64, although DWARF describes it as an unsigned number.
	KindBool
	KindInt
	KindUint
	KindFloat
	// KindChar is C's char, whether signed or not.
	KindChar
	// KindPointer is an address of an Elem.
	KindPointer
	// KindArray is Count Elems in a row.
	KindArray
	// KindStruct has Fields. The fields of a union overlap.
	KindStruct
)

// IsString reports whether the type is a pointer to char, which is C's way to pass text
// that ends with a NUL. A nil Type is not.
func (t *Type) IsString() bool {
	return t != nil && t.Kind == KindPointer && t.Elem.Kind == KindChar
}

// String returns the type's name, "int *" for a pointer to an int, and "?" for nil.
func (t *Type) String() string {
	suffix := ""
	for range 8 {
		switch {
		case t == nil:
			return "?" + suffix
		case t.Name != "":
			return t.Name + suffix
		case t.Kind == KindPointer && suffix == "":
			suffix = " *"
		case t.Kind == KindPointer:
			suffix = " *" + suffix[1:]
		case t.Kind == KindStruct:
			return "struct" + suffix
		default:
			return "?" + suffix
		}
		t = t.Elem
	}
	return "?" + suffix
}
