package text

import (
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/sdt"
)

// Signature returns the names and types of a probe's arguments, as in
// "path string, status int32". It is printable.
func Signature(p sdt.Site) string {
	var all []string
	for _, a := range p.Args {
		words := TypeName(a)
		if a.Name != "" {
			words = a.Name + " " + words
		}
		all = append(all, Printable(words))
	}
	return strings.Join(all, ", ")
}

// TypeName returns the type of an argument: as DWARF describes it, "string" for text that ends
// with a NUL, or, without a description, the type in the note, such as "int32" or "float64".
func TypeName(a sdt.Arg) string {
	switch {
	case a.Type.IsString():
		return "string"
	case a.Type != nil:
		return a.Type.String()
	case a.Size == 0:
		return "unknown"
	case a.Float:
		return fmt.Sprintf("float%d", 8*a.Size)
	case a.Signed:
		return fmt.Sprintf("int%d", 8*a.Size)
	}
	return fmt.Sprintf("uint%d", 8*a.Size)
}
