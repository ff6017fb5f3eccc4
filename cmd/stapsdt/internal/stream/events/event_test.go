package events

import (
	"math"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestShow: an event has its arguments, or the values of the expressions, and a text that is cut says so and keeps its characters whole.
func TestShow(t *testing.T) {
	probe := &recording.Probe{Provider: "p", Name: "x", Args: []recording.Arg{
		{Name: "n", Type: 8, Kind: kind.Uint64}, {Name: "text", Type: kind.TypeString, Kind: kind.String}, {Name: "f", Type: kind.TypeFloat32, Kind: kind.Float64},
	}}
	word, text, half := expr.Type{Kind: expr.Uint, Size: 8}, expr.Type{Kind: expr.String}, uint64(math.Float32bits(0.5))
	number := func(bits uint64) value.Value { return value.Value{Type: word, Bits: bits} }
	of := func(s string, cut bool) value.Value {
		return value.Value{Type: text, Text: []byte(s), Cut: cut}
	}
	missing := value.Value{Type: word, Missing: true}
	float := value.Value{Type: expr.Type{Kind: expr.Float, Size: 4}, Bits: half}
	for _, c := range []struct {
		show Show
		n    uint64
		text string
		cut  uint64 // by argument
		want []value.Value
	}{
		{Show{TextSize: 7}, 7, "größe", 0, []value.Value{number(7), of("größe", false), float}},
		{Show{TextSize: 6}, 7, "größe", 0, []value.Value{number(7), of("größ", true), float}},
		{Show{TextSize: 5}, 7, "größe", 0, []value.Value{number(7), of("grö", true), float}},
		{Show{TextSize: 8}, 7, "gr", 0b10, []value.Value{number(7), of("gr", true), float}},
		{Show{TextSize: 8, Exprs: []string{"n * 2", "text", "f", "len(text)"}}, 7, "gr", 0, []value.Value{number(14), of("gr", false), float, {Type: expr.Type{Kind: expr.Int, Size: 8}, Bits: 2}}},
		{Show{TextSize: 1, Exprs: []string{"text", "10 / n"}}, 0, "gr", 0, []value.Value{of("g", true), missing}},
		{Show{TextSize: 8, Exprs: []string{"arg1"}}, 0, "gr", 0b10, []value.Value{of("gr", true)}},
	} {
		e := &recording.Event{}
		e.Reset(probe, &recording.Event{Missing: 3})
		e.Cut = c.cut
		e.Set(0, c.n)
		e.SetText(1, []byte(c.text))
		e.Set(2, half)
		d := &Delivery{Show: &c.show, Consumer: &notes{take: func(e *Event) error {
			var got []value.Value
			for i := range e.Shown.Items {
				var v value.Value
				v.Set(&e.Shown.Items[i], e.Event, i)
				got = append(got, v)
			}
			require.Equal(t, c.want, got)
			require.EqualValues(t, 3, e.Missing)
			return nil
		}}}
		require.NoError(t, d.Event(e, replay.NewFile(&replay.Process{})))
	}
}

// TestTurns: events of several probes in turns have the values of their own probe.
func TestTurns(t *testing.T) {
	var got []string
	d := &Delivery{Show: &Show{TextSize: 8}, Consumer: &notes{take: func(e *Event) error {
		got = append(got, e.Probe.Name+" "+e.Shown.Items[0].Name)
		return nil
	}}}
	var probes []*recording.Probe
	for _, name := range []string{"a", "b"} {
		arg := recording.Arg{Name: "of_" + name, Type: 8, Kind: kind.Uint64}
		probes = append(probes, &recording.Probe{Provider: "p", Name: name, Args: []recording.Arg{arg}})
	}
	for _, i := range []int{0, 0, 1, 0, 1, 1} {
		require.NoError(t, d.Event(eventtest.Event(0, probes[i], 7), replay.NewFile(&replay.Process{})))
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
