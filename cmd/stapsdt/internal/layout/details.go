//go:build linux

package layout

import "github.com/go-stapsdt/stapsdt/sdt"

// Details describes the part of a record that holds the struct to which an argument points.
type Details struct {
	Type *sdt.Type
	// Offset is the offset of the struct in the record. The record has Size bytes of it, and not all if it is large. A
	// word that is 0 if they could be read precedes them.
	Offset, Size int
	Texts        []DetailText
}

// DetailText is a string in a struct: a pointer to char, or a Go string.
type DetailText struct {
	// At is the offset of the address in the struct.
	At int
	// IsGo reports whether it is a Go string: the length follows the address, and there is no NUL.
	IsGo bool
	// Offset is the offset of the string in the record. A word precedes it: the length, including the NUL in C, or a
	// negative number if the string could not be read.
	Offset, TextSize int
}

// IsGoString reports whether a type is Go's string type, or has the same layout.
func IsGoString(t *sdt.Type) bool {
	return t.Kind == sdt.KindStruct && t.Size == 16 && len(t.Fields) == 2 && t.Fields[0].Name == "str" && t.Fields[1].Name == "len" &&
		t.Fields[0].Type != nil && t.Fields[0].Type.Kind == sdt.KindPointer && t.Fields[1].Offset == 8
}
