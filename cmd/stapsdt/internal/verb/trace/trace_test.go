package trace

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// losing is a source that has lost an event at first, and loses another each millisecond.
type losing struct {
	events.Source
	since time.Time
	asked int
}

func (l *losing) Lost() uint64 { l.asked++; return 1 + uint64(time.Since(l.since)/time.Millisecond) }

// TestLossRate: lost events are counted and reported at most once a second.
func TestLossRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		to := &console.Console{Out: &bytes.Buffer{}, Err: &said}
		source := &losing{since: time.Now()}
		one := &trace{Console: to, options: &Options{}, printer: render.NewPrinter(query.Text, render.Style{}), stream: &events.Stream{Source: source, Live: true}}
		for range 3501 {
			_, _, err := one.Tick()
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 4, strings.Count(said.String(), "\n"), "%s", &said)
		require.Contains(t, said.String(), "1000 events were lost")
		require.Equal(t, uint64(3001), one.lost)
		require.Equal(t, 4, source.asked)
	})
}

// TestAllocations: an event is shown without allocating, in every format.
func TestAllocations(t *testing.T) {
	probe := &recording.Probe{Provider: "app", Name: "request__done", Args: []recording.Arg{
		{Name: "path", Type: kind.TypeString, Kind: kind.String}, {Name: "status", Type: -4, Kind: kind.Int64},
		{Name: "took", Type: -8, Kind: kind.Duration}, {Name: "load", Type: kind.TypeFloat32, Kind: kind.Float64},
		{Name: "at", Type: -8, Kind: kind.Time}, {Name: "buffer", Type: 8, Kind: kind.Pointer},
	}}
	e := &recording.Event{}
	e.Reset(probe, &recording.Event{PID: 1, Realtime: 1_700_000_000_000_000_000, Executable: "/usr/bin/app"})
	e.SetText(0, []byte("/a/path/that/is/longer/than/32/bytes"))
	for i, word := range []uint64{404, 1_500_000, uint64(math.Float32bits(0.1)), 1_700_000_000_123_456_789, 0xc000} {
		e.Set(1+i, word)
	}
	for _, format := range query.Formats {
		one := &trace{
			Console: &console.Console{Out: io.Discard}, options: &Options{Limit: math.MaxUint64},
			printer: render.NewPrinter(format, render.Style{}), stream: &events.Stream{Live: true},
		}
		one.Know(probe)
		d := &events.Delivery{Consumer: one, Show: &events.Show{TextSize: 256}}
		file := &replay.File{}
		allocations := testing.AllocsPerRun(100_000, func() {
			e.PID, e.Realtime = e.PID^1, e.Realtime+1_000_001
			require.NoError(t, d.Event(e, file))
		})
		require.Zero(t, allocations, format.Word())
		require.Positive(t, one.printer.Size(), "nothing is shown")
	}
}
