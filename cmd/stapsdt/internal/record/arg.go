//go:build linux

package record

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// argOf returns how a recording describes the values of an item.
func argOf(item *layout.Item) recording.Arg {
	t := item.Type
	size := int8(t.Size)
	switch {
	case t.Kind == expr.String, item.Names != nil:
		return recording.Arg{Type: recording.TypeString, Kind: recording.String}
	case t.Kind == expr.Float:
		return recording.Arg{Type: recording.TypeFloat32 - 4 + size, Kind: recording.Float64}
	case t.Kind == expr.Bool:
		return recording.Arg{Type: 1, Kind: recording.Bool}
	case t.Duration:
		return recording.Arg{Type: -8, Kind: recording.Duration}
	case t.Kind == expr.Int:
		return recording.Arg{Type: -size, Kind: recording.Int64}
	case item.Described != nil && item.Described.Kind == sdt.KindPointer:
		return recording.Arg{Type: size, Kind: recording.Pointer}
	}
	return recording.Arg{Type: size, Kind: recording.Uint64}
}
