//go:build linux

package events

import (
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// ArgOf describes the values of an item as a recording would. An item that can never be read becomes a string that says so.
func ArgOf(item *event.Item) recording.Arg {
	t := item.Type
	bare := t.Kind != expr.String && item.Names != nil || item.Unreadable != nil
	if bare {
		t = expr.Type{Kind: expr.String}
	}
	return recording.Arg{
		Name: item.Name, Type: t.Kind.Type(t.Size), Kind: kind.Of(t.Kind, t.Unit), Bare: bare,
	}
}

// body is the body of a record: the words of the arguments, and then their texts.
type body struct{ words, texts []byte }

func (b *body) number(word uint64) { b.words = binary.LittleEndian.AppendUint64(b.words, word) }

func (b *body) text(text []byte) {
	b.number(uint64(len(text)))
	b.texts = append(append(b.texts, text...), make([]byte, 8-len(text)%8)...)
}

// decode decodes an event of a probe whose arguments were added, and empties the body for the next one.
func (b *body) decode(e *recording.Event, p *recording.Probe) error {
	b.words = append(b.words, b.texts...)
	err := e.Decode(p, b.words)
	b.words, b.texts = b.words[:0], b.texts[:0]
	return err
}

// add adds the i-th argument of an event to the body. A string that was cut ends in an ellipsis.
func (k *kernel) add(i int, v event.Value, item *event.Item, of kind.Kind) {
	isText := of == kind.String
	unreadable := v.Missing && item.Unreadable == nil && (!isText || v.Bits != 0 || item.Names != nil) // not a null pointer
	if unreadable {
		k.unreadable++
	}
	isNull := isText && item.Type.Kind == expr.String && v.Bits == 0 && !item.IsGo
	if unreadable || isNull || item.Unreadable != nil {
		k.recorded.Unreadable |= 1 << i
	}
	switch {
	case !isText && v.Missing:
		k.body.number(0)
	case !isText:
		k.body.number(v.Bits)
	case item.Unreadable != nil:
		k.body.text([]byte("<unavailable>"))
	case unreadable:
		k.body.text(render.AppendText(nil, item, v))
	case item.Names != nil:
		k.body.text([]byte(item.Names.NameOf(v.Bits)))
	case v.Cut:
		k.body.text(append(v.Text[:len(v.Text):len(v.Text)], "…"...))
	default:
		k.body.text(v.Text)
	}
}

// addSent adds an argument that a program has sent.
func (b *body) addSent(a recording.Arg, v any) {
	text, _ := v.(string)
	switch v := v.(type) {
	case json.Number:
		text = string(v)
	case bool:
		text = strconv.FormatBool(v)
	}
	row := a.Kind.Row()
	if row.Class == kind.Text {
		b.text([]byte(text))
		return
	}
	value := expr.WordValue(row.Class, kind.Parse(row.Class, row.Unit, text))
	b.number(replay.Bits(expr.TypeOf(a.Kind, a.Type), value))
}
