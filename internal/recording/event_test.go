package recording

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"

	"github.com/stretchr/testify/require"
)

// TestReset: the arguments of an event that is in no recording are those that were set, whatever the lengths of its texts, as if
// they were recorded, and nothing of the event before is left.
func TestReset(t *testing.T) {
	text := Arg{Name: "t", Type: kind.TypeString, Kind: kind.String}
	half := Arg{Name: "f", Type: kind.TypeFloat32, Kind: kind.Float64}
	probe := &Probe{Args: []Arg{text, {Name: "n", Type: 8, Kind: kind.Uint64}, text, half}}
	var e Event
	for n, texts := range [][2]string{{"", ""}, {"1234567", "12345678"}, {"123456789", "a\x00b"}, {"", "z"}} {
		e.Reset(probe, &Event{Number: 7, Cut: 1, Unreadable: 1, body: []byte{1}})
		require.Equal(t, Event{Probe: probe, Number: 7, body: make([]byte, 32)}, e)
		e.SetText(0, []byte(texts[0]))
		e.SetText(2, []byte(texts[1]))
		e.Set(1, uint64(n))
		e.Set(3, 0x3f000000)
		e.Cut, e.Unreadable, e.Monotonic = 1, 1, time.Second
		require.Equal(t, texts, [2]string{string(e.Text(0)), string(e.Text(2))})
		require.Equal(t, []uint64{uint64(n), 0x3fe0000000000000}, []uint64{e.Word(1), e.Word(3)})
		require.NoError(t, new(Event).decode(probe, e.body))
		require.Zero(t, testing.AllocsPerRun(10, func() { e.Reset(probe, &Event{}); e.SetText(0, []byte("text")) }))
	}
}
