package value

import (
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// timeFields are the fields of a time.Time, of eight bytes each. kind.FromWords reads the first
// two.
var timeFields = [...]struct {
	name string
	kind sdt.TypeKind
}{{"wall", sdt.KindUint}, {"ext", sdt.KindInt}, {"loc", sdt.KindPointer}}

// IsTime reports whether a type is a time.Time.
func IsTime(t *sdt.Type) bool {
	name, _, _ := strings.Cut(t.Name, "#") // which tells types of the same name apart
	if name != kind.TimeName || len(t.Fields) != len(timeFields) {
		return false
	}
	for i, want := range timeFields {
		f := t.Fields[i]
		isField := f.Name == want.name && f.Offset == int64(8*i)
		if !isField || f.Type == nil || f.Type.Kind != want.kind {
			return false
		}
	}
	return true
}
