//go:build linux

package source

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// add adds the i-th argument of an event to the body. A string that was cut ends in an ellipsis.
func (k *kernel) add(i int, v *event.Value, item *event.Item, of kind.Kind) {
	isText := of == kind.String
	isPointer := isText && item.Names == nil
	unreadable := v.Missing && item.Unreadable == nil && !(isPointer && v.Bits == 0) // but null
	if unreadable {
		k.unreadable++
	}
	isNull := isText && item.Type.Kind == expr.String && v.Bits == 0 && !item.IsGo
	if unreadable || isNull || item.Unreadable != nil {
		k.recorded.Unreadable |= 1 << i
	}
	switch {
	case !isText && v.Missing:
		k.body.Number(0)
	case !isText:
		k.body.Number(v.Bits)
	case item.Unreadable != nil:
		k.body.Text([]byte("<unavailable>"))
	case unreadable:
		k.body.Text(render.AppendText(nil, item, v))
	case item.Names != nil:
		k.body.Text([]byte(item.NameOf(v)))
	case v.Cut:
		k.body.Text(append(v.Text[:len(v.Text):len(v.Text)], "…"...))
	default:
		k.body.Text(v.Text)
	}
}
