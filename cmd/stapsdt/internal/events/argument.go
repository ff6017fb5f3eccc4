//go:build linux

package events

import (
	"encoding/json"
	"strconv"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// ArgOf describes the values of an item as a recording would. An item that can never be read becomes a string that says so.
func ArgOf(item *layout.Item) recording.Arg {
	a := recording.Arg{Name: item.Name, Type: int8(item.Type.Size), Kind: recording.Uint64}
	switch {
	case item.Type.Kind == expr.String, item.Names != nil, item.Unreadable != nil:
		a.Type, a.Kind = recording.TypeString, recording.String
	case item.Type.Kind == expr.Float:
		a.Type, a.Kind = int8(recording.TypeFloat32-4+item.Type.Size), recording.Float64
	case item.Type.Kind == expr.Bool:
		a.Kind = recording.Bool
	case item.Type.Duration:
		a.Type, a.Kind = -a.Type, recording.Duration
	case item.Type.Kind == expr.Int:
		a.Type, a.Kind = -a.Type, recording.Int64
	case item.IsPointer():
		a.Kind = recording.Pointer
	}
	return a
}

// body is the body of a record: the words of the arguments, and then their texts.
type body struct{ words, texts []byte }

// integer converts a JSON number to the bits of an integer.
func integer(v any) uint64 {
	n, _ := v.(json.Number)
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return uint64(i)
	}
	u, _ := strconv.ParseUint(string(n), 10, 64)
	return u
}
