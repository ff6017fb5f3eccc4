package render

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// AppendText appends a value for people.
func AppendText(to []byte, i *value.Item, v *value.Value) []byte {
	return forPeople.value(to, i, v)
}

// AppendJSON appends a value as JSON. A missing value becomes null.
func AppendJSON(to []byte, i *value.Item, v *value.Value) []byte {
	return asJSON.value(to, i, v)
}

// value appends a value.
func (n notation) value(to []byte, i *value.Item, v *value.Value) []byte {
	switch {
	case v.Missing:
		return n.null(to, v)
	case i.Bare && n == forPeople:
		return n.name(to, string(v.Text))
	case v.Type.Kind == expr.String:
		return n.text(to, v.Text, v.Cut)
	case i.Names != nil:
		return n.name(to, i.NameOf(v))
	case v.Struct != nil:
		f := fields{notation: n, d: i.Details, v: v}
		return f.whole(to)
	case n == asJSON:
		return n.number(to, v.Type, v.Bits)
	case v.Bits == 0 && isOperation(i):
		return append(to, '-')
	}
	if name := i.Constants[v.Bits]; name != "" {
		to = append(n.name(to, name), " ("...)
		return append(n.number(to, v.Type, v.Bits), ')')
	}
	return n.number(to, v.Type, v.Bits)
}

// null appends the reason why there is no value, or null in JSON.
func (n notation) null(to []byte, v *value.Value) []byte {
	switch {
	case len(v.Text) > 0:
		return n.missing(to, string(v.Text))
	case v.Type.Kind == expr.String:
		return n.missing(to, "<null>")
	}
	return n.missing(to, "<unreadable>")
}

// isOperation reports whether a value is the ID of another operation, as package span and its
// instrumentations name it. The ID is 0 if there is no such operation, or if its start was not
// traced.
func isOperation(i *value.Item) bool {
	return (i.Name == "parent" || i.Name == "span") && i.Type == expr.Type{Kind: expr.Uint, Size: 8}
}
