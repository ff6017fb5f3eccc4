//go:build linux

package source

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// typeNames names the types of interfaces.
type typeNames struct{}

func (typeNames) NameOf(bits uint64) string {
	if bits == 0 {
		return "nil"
	}
	return "*fs.PathError"
}

// fired is the record of an event whose only item has these values.
func fired(item *value.Item, v *value.Value) *layout.Event {
	e := &layout.Event{Raw: make([]byte, layout.EventHeader, 1024)}
	item.Offset, item.Size = layout.EventHeader, 8
	le := binary.NativeEndian
	if v.Missing {
		le.PutUint64(e.Raw[layout.EventMissing:], 1)
	}
	e.Raw = le.AppendUint64(e.Raw, v.Bits)
	if item.Type.Kind == expr.String {
		e.Raw = append(le.AppendUint64(e.Raw, uint64(len(v.Text)+1)), v.Text...)
		e.Raw = append(e.Raw, 0)
	}
	if item.Details != nil {
		item.Details.Offset = layout.EventHeader + 16
		e.Raw = append(append(le.AppendUint64(e.Raw, 0), v.Struct...), v.Texts...)
	}
	item.Size = len(e.Raw) - item.Offset
	return e
}

// TestNotation: an event of the kernel shows its values as it does if it is recorded, and what is no text of the program has no
// quotes in a recording either.
func TestNotation(t *testing.T) {
	word, text := expr.Type{Kind: expr.Uint, Size: 8}, expr.Type{Kind: expr.String}
	named := value.Item{Type: word, Names: typeNames{}}
	pointer := value.Item{Type: expr.Type{Kind: expr.Uint, Size: 8, Unit: kind.Address}}
	cut := strings.Repeat("ä", 40)
	for _, c := range []struct {
		item         value.Item
		value        value.Value
		shown, json  string
		noRecordings bool // which cannot say that it could not be read
		unreadable   bool
	}{
		{item: named, value: value.Value{Bits: 0}, shown: `nil`, json: `"nil"`},
		{item: named, value: value.Value{Bits: 7}, shown: `*fs.PathError`, json: `"*fs.PathError"`},
		{item: named, value: value.Value{Missing: true}, shown: `<unreadable>`, json: `null`, noRecordings: true, unreadable: true},
		{item: pointer, value: value.Value{Bits: 0xc000}, shown: `0xc000`, json: `"0xc000"`},
		{item: pointer, shown: `0x0`, json: `"0x0"`},
		{item: pointer, value: value.Value{Missing: true}, shown: `<unreadable>`, json: `null`, noRecordings: true, unreadable: true},
		{item: value.Item{Type: text, IsGo: true}, value: value.Value{Text: []byte("nil")}, shown: `"nil"`, json: `"nil"`},
		{item: value.Item{Type: text}, value: value.Value{Bits: 16, Text: []byte("a")}, shown: `"a"`, json: `"a"`},
		{item: value.Item{Type: text}, value: value.Value{Missing: true}, shown: `<null>`, json: `null`, noRecordings: true},
		{item: value.Item{Type: text}, value: value.Value{Bits: 16, Missing: true}, shown: `<unreadable 0x10>`, json: `null`, noRecordings: true, unreadable: true},
		{item: value.Item{Type: text}, value: value.Value{Bits: 16, Text: []byte(cut)}, shown: `"` + cut[:64] + `"…`, json: `"` + cut[:64] + `"`, noRecordings: true},
		{item: value.Item{Type: text, IsGo: true, IsBytes: true}, value: value.Value{Bits: 16, Text: []byte("\xff\x00")}, shown: `"0xff00"`, json: `"0xff00"`},
		{item: value.Item{Type: word, Unreadable: errors.New("a vector")}, shown: `<unavailable>`, json: `null`, noRecordings: true},
	} {
		c.item.Name, c.item.TextSize = "x", 64
		record := fired(&c.item, &c.value)
		s := newTracedProbe(&bpf.Probe{Provider: "p", Name: "x", Args: make([]bpf.Arg, 1)}, []value.Item{c.item})
		e := &recording.Event{}
		e.Reset(s.probe, &recording.Event{})
		require.Equal(t, c.unreadable, s.setArguments(e, record) == 1)
		var v value.Value
		v.Set(&s.shown.Items[0], e, 0)
		require.Equal(t, c.shown, string(render.AppendText(nil, &s.shown.Items[0], &v)))
		require.Equal(t, c.json, string(render.AppendJSON(nil, &s.shown.Items[0], &v)))
		all := evaluate.ShowAll(evaluate.Arguments{}.Of(e))
		require.Equal(t, []string{c.shown, c.json}, []string{all[0].Text, string(all[0].JSON)})

		written, err := recording.DecodeProbes(s.probe.Append(nil))
		require.NoError(t, err)
		require.Equal(t, s.probe, written[0])
		e.Probe, e.Unreadable = written[0], 0
		all = evaluate.ShowAll(evaluate.Arguments{}.Of(e))
		if !c.noRecordings {
			require.Equal(t, []string{c.shown, c.json}, []string{all[0].Text, string(all[0].JSON)})
		}
	}
}

// TestStruct: an event of the kernel has the struct to which an argument points, with its strings, or only the address.
func TestStruct(t *testing.T) {
	text := &sdt.Type{Kind: sdt.KindPointer, Size: 8, Elem: &sdt.Type{Kind: sdt.KindChar, Size: 1}}
	of := &sdt.Type{Kind: sdt.KindStruct, Size: 12, Fields: []sdt.Field{
		{Name: "name", Type: text}, {Name: "n", Type: &sdt.Type{Kind: sdt.KindUint, Size: 4}, Offset: 8},
	}}
	item := value.Item{
		Name: "p", Type: expr.Type{Kind: expr.Uint, Size: 8, Unit: kind.Address},
		Details: &value.Details{Type: of, Size: 12, Texts: []value.DetailText{{TextSize: 4}}},
	}
	le := binary.NativeEndian
	whole := le.AppendUint32(le.AppendUint64(nil, 0x10), 7)
	texts := append(le.AppendUint64(make([]byte, 4), 6), "route\x00"...)
	record := fired(&item, &value.Value{Bits: 0xc000, Struct: whole, Texts: texts})
	item.Details.Texts[0].Offset = item.Details.Offset + 16 + 8
	s := newTracedProbe(&bpf.Probe{Provider: "p", Name: "x", Args: make([]bpf.Arg, 1)}, []value.Item{item})
	show := func() (text, asJSON string) {
		e := &recording.Event{}
		e.Reset(s.probe, &recording.Event{})
		s.setArguments(e, record)
		var v value.Value
		v.Set(&s.shown.Items[0], e, 0)
		return string(render.AppendText(nil, &s.shown.Items[0], &v)), string(render.AppendJSON(nil, &s.shown.Items[0], &v))
	}
	for _, want := range [][2]string{
		{`{name="rout"… n=7}`, `{"name":"rout","n":7}`}, {`0xc000`, `"0xc000"`}, {`<unreadable>`, `null`},
	} {
		text, asJSON := show()
		require.Equal(t, want, [2]string{text, asJSON})
		if le.Uint64(record.Raw[item.Offset+8:]) != 0 {
			le.PutUint64(record.Raw[layout.EventMissing:], 1)
		}
		record.Raw[item.Offset+8] = 1 // the struct could not be read
	}
}
