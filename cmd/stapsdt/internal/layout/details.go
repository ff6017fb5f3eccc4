//go:build linux

package layout

import "github.com/go-stapsdt/stapsdt/sdt"

// Details are the part of a record that holds the struct to which an argument points.
type Details struct {
	Type *sdt.Type
	// Offset is where the struct is in the record: Size bytes, which are less than it has if
	// it is large. They are preceded by a word that is 0 if they could be read.
	Offset, Size int
	Texts        []DetailText
}

// DetailText is a text of a struct: a pointer to char, or a string of Go.
type DetailText struct {
	// At is where the address is in the struct.
	At int
	// IsGo reports whether it is a Go string: the length follows the address, and there is no NUL.
	IsGo bool
	// Offset is where the text is in the record. It is preceded by a word: the length, in C
	// with the NUL, or a negative number if it could not be read.
	Offset, TextSize int
}

// IsGoString reports whether a type is Go's string, or defined as one.
func IsGoString(t *sdt.Type) bool {
	return t.Kind == sdt.KindStruct && t.Size == 16 && len(t.Fields) == 2 && t.Fields[0].Name == "str" && t.Fields[1].Name == "len" &&
		t.Fields[0].Type != nil && t.Fields[0].Type.Kind == sdt.KindPointer && t.Fields[1].Offset == 8
}
