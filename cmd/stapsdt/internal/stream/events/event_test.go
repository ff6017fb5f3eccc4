package events

import (
	"math"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestShow: the values of an event are its arguments, or those of the expressions, and a text that is cut says so and keeps its characters whole.
func TestShow(t *testing.T) {
	probe := &recording.Probe{Provider: "p", Name: "x", Args: []recording.Arg{
		{Name: "n", Type: 8, Kind: kind.Uint64}, {Name: "text", Type: kind.TypeString, Kind: kind.String}, {Name: "f", Type: kind.TypeFloat32, Kind: kind.Float64},
	}}
	word, text, half := expr.Type{Kind: expr.Uint, Size: 8}, expr.Type{Kind: expr.String}, uint64(math.Float32bits(0.5))
	number := func(bits uint64) event.Value { return event.Value{Type: word, Bits: bits} }
	of := func(s string, cut bool) event.Value {
		return event.Value{Type: text, Bits: 1, Text: []byte(s), Cut: cut}
	}
	missing := event.Value{Type: word, Missing: true}
	float := event.Value{Type: expr.Type{Kind: expr.Float, Size: 4}, Bits: half}
	for _, c := range []struct {
		show Show
		n    uint64
		text string
		cut  uint64 // by argument
		want []event.Value
	}{
		{Show{TextSize: 7}, 7, "größe", 0, []event.Value{number(7), of("größe", false), float}},
		{Show{TextSize: 6}, 7, "größe", 0, []event.Value{number(7), of("größ", true), float}},
		{Show{TextSize: 5}, 7, "größe", 0, []event.Value{number(7), of("grö", true), float}},
		{Show{TextSize: 8}, 7, "gr", 0b10, []event.Value{number(7), of("gr", true), float}},
		{Show{TextSize: 8, Exprs: []string{"n * 2", "text", "f", "len(text)"}}, 7, "gr", 0, []event.Value{number(14), of("gr", false), float, {Type: expr.Type{Kind: expr.Int, Size: 8}, Bits: 2}}},
		{Show{TextSize: 1, Exprs: []string{"text", "10 / n"}}, 0, "gr", 0, []event.Value{of("g", true), missing}},
		{Show{TextSize: 8, Exprs: []string{"arg1"}}, 0, "gr", 0b10, []event.Value{of("gr", true)}},
	} {
		var b Body
		b.Number(c.n)
		b.Text([]byte(c.text))
		b.Number(half)
		e := &recording.Event{Cut: c.cut}
		require.NoError(t, b.Decode(e, probe))
		d := &Delivery{Show: &c.show, Consumer: &notes{take: func(e *Event) error {
			var got []event.Value
			for i := range e.Shown().Items {
				got = append(got, *e.Value(i))
			}
			require.Equal(t, c.want, got)
			return nil
		}}}
		require.NoError(t, d.Event(e, replay.NewFile(&replay.Process{})))
	}
}

// TestTurns: events of several probes in turns have the values of their own probe.
func TestTurns(t *testing.T) {
	var got []string
	d := &Delivery{Show: &Show{TextSize: 8}, Consumer: &notes{take: func(e *Event) error {
		got = append(got, e.Shown().Probe+" "+e.Shown().Items[0].Name)
		return nil
	}}}
	var probes []*recording.Probe
	for _, name := range []string{"a", "b"} {
		arg := recording.Arg{Name: "of_" + name, Type: 8, Kind: kind.Uint64}
		probes = append(probes, &recording.Probe{Provider: "p", Name: name, Args: []recording.Arg{arg}})
	}
	for _, i := range []int{0, 0, 1, 0, 1, 1} {
		var b Body
		b.Number(7)
		var e recording.Event
		require.NoError(t, b.Decode(&e, probes[i]))
		require.NoError(t, d.Event(&e, replay.NewFile(&replay.Process{})))
	}
	require.Equal(t, []string{"a of_a", "a of_a", "b of_b", "a of_a", "b of_b", "b of_b"}, got)
}

// TestComm: an event has the name of its thread's process, or that of its program.
func TestComm(t *testing.T) {
	for _, c := range []struct {
		process    *replay.Process
		executable string
		want       string
	}{
		{&replay.Process{Comm: "worker"}, "/bin/app", "worker"}, {&replay.Process{}, "/bin/app", "app"}, {nil, "/bin/app", "app"}, {nil, "", ""},
	} {
		e := Event{Event: &recording.Event{Executable: c.executable}, File: &replay.File{Process: c.process}}
		require.Equal(t, c.want, string(e.Comm()))
	}
}

// TestBody: the words and texts of an argument come back, whatever the texts' lengths, and nothing of them is in the next event.
func TestBody(t *testing.T) {
	var b Body
	text := recording.Arg{Name: "t", Type: kind.TypeString, Kind: kind.String}
	probe := &recording.Probe{Args: []recording.Arg{text, {Name: "n", Type: 8, Kind: kind.Uint64}, text}}
	for n, texts := range [][2]string{{"", ""}, {"1234567", "12345678"}, {"123456789", "a\x00b"}, {"", "z"}} {
		b.Text([]byte(texts[0]))
		b.Number(uint64(n))
		b.Text([]byte(texts[1]))
		var e recording.Event
		require.NoError(t, b.Decode(&e, probe))
		require.Equal(t, texts, [2]string{string(e.Text(0)), string(e.Text(2))})
		require.EqualValues(t, n, e.Word(1))
	}
	b.Number(1)
	require.ErrorIs(t, b.Decode(&recording.Event{}, probe), recording.ErrCorrupt)
}
