//go:build linux

package source

import (
	"errors"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"

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

// TestNotation: an event of the kernel shows its values as trace does, in the form of a recorded event, and what
// is no text of the program has no quotes in a recording either.
func TestNotation(t *testing.T) {
	word, text := expr.Type{Kind: expr.Uint, Size: 8}, expr.Type{Kind: expr.String}
	named := event.Item{Type: word, Names: typeNames{}}
	pointer := event.Item{Type: expr.Type{Kind: expr.Uint, Size: 8, Unit: kind.Address}}
	for _, c := range []struct {
		item         event.Item
		value        event.Value
		shown, json  string
		noRecordings bool // which cannot say that it could not be read
	}{
		{named, event.Value{Bits: 0}, `nil`, `"nil"`, false},
		{named, event.Value{Bits: 7}, `*fs.PathError`, `"*fs.PathError"`, false},
		{named, event.Value{Missing: true}, `<unreadable>`, `null`, true},
		{pointer, event.Value{Bits: 0xc000}, `0xc000`, `"0xc000"`, false},
		{pointer, event.Value{}, `0x0`, `"0x0"`, false},
		{pointer, event.Value{Missing: true}, `<unreadable>`, `null`, true},
		{event.Item{Type: text, IsGo: true}, event.Value{Text: []byte("nil")}, `"nil"`, `"nil"`, false},
		{event.Item{Type: text}, event.Value{Bits: 16, Text: []byte("a")}, `"a"`, `"a"`, false},
		{event.Item{Type: text}, event.Value{Missing: true}, `<null>`, `null`, true},
		{event.Item{Type: text}, event.Value{Bits: 16, Missing: true}, `<unreadable 0x10>`, `null`, true},
		{event.Item{Type: word, Unreadable: errors.New("a vector")}, event.Value{}, `<unavailable>`, `null`, true},
	} {
		c.item.Name, c.item.TextSize, c.value.Type = "x", 64, c.item.Type
		require.Equal(t, c.shown, string(render.AppendText(nil, &c.item, &c.value)))
		require.Equal(t, c.json, string(render.AppendJSON(nil, &c.item, &c.value)))

		probe := &recording.Probe{Provider: "p", Name: "x", Args: []recording.Arg{events.ArgOf(&c.item)}}
		k := &kernel{}
		k.add(0, &c.value, &c.item, probe.Args[0].Kind)
		require.NoError(t, k.body.Decode(&k.recorded, probe))
		all := replay.ShowAll(replay.Arguments{}.Of(&k.recorded))
		require.Equal(t, []string{c.shown, c.json}, []string{all[0].Text, string(all[0].JSON)})

		written, err := recording.DecodeProbes(probe.Append(nil))
		require.NoError(t, err)
		require.Equal(t, probe, written[0])
		k.recorded.Probe, k.recorded.Unreadable = written[0], 0
		all = replay.ShowAll(replay.Arguments{}.Of(&k.recorded))
		if !c.noRecordings {
			require.Equal(t, []string{c.shown, c.json}, []string{all[0].Text, string(all[0].JSON)})
		}
	}
}
