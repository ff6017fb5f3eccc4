package events

import (
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// ArgOf describes the values of an item as a recording would. An item that can never be read
// becomes a string that states this.
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

// Body is the body of a record: the words of the arguments, and then their texts.
type Body struct{ words, texts []byte }

// Number adds a word.
func (b *Body) Number(word uint64) { b.words = binary.LittleEndian.AppendUint64(b.words, word) }

// Text adds a text.
func (b *Body) Text(text []byte) {
	b.Number(uint64(len(text)))
	b.texts = append(append(b.texts, text...), make([]byte, 8-len(text)%8)...)
}

// Decode decodes an event of a probe whose arguments were added, and empties the body for the next
// one.
func (b *Body) Decode(e *recording.Event, p *recording.Probe) error {
	b.words = append(b.words, b.texts...)
	err := e.Decode(p, b.words)
	b.words, b.texts = b.words[:0], b.texts[:0]
	return err
}

// addSent adds an argument that a program has sent.
func (b *Body) addSent(a recording.Arg, v any) {
	text, _ := v.(string)
	switch v := v.(type) {
	case json.Number:
		text = string(v)
	case bool:
		text = strconv.FormatBool(v)
	}
	row := a.Kind.Row()
	if row.Class == kind.Text {
		b.Text([]byte(text))
		return
	}
	value := expr.WordValue(row.Class, kind.Parse(row.Class, row.Unit, text))
	b.Number(replay.Bits(expr.TypeOf(a.Kind, a.Type), value))
}
