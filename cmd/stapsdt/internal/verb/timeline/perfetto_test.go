package timeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// drawn writes spans, which are in the order of their ends, and the same number of instants, and draws them as Perfetto does.
func drawn(t *testing.T, spans []interval, goroutines int) (all []*eventtest.Drawn, clocks map[uint64]uint64) {
	t.Helper()
	var out bytes.Buffer
	w, err := create(&console.Console{Out: &out}, "-", "perfetto")
	require.NoError(t, err)
	tracks := tracks{writer: w}
	f := &replay.File{}
	at := func(i int) *track {
		return tracks.of(&recording.Event{PID: 7, Goroutine: uint64(1 + i%goroutines), Executable: "program"}, f)
	}
	for i := range spans {
		at(i).open++
	}
	for i, s := range spans {
		to := at(i)
		to.open--
		name := fmt.Sprintf("p:\"%d\xff", i)
		args := []evaluate.Shown{{Name: "i", JSON: json.RawMessage(fmt.Sprint(i))}, {Name: "unknown"}}
		w.write(w.span(&mark{name, to.process, tracks.number(to, to.lane(s.start, s.end)), s.start, args}, s.end-s.start))
		w.write(w.instant(&mark{"p:instant", to.process, tracks.number(to, 0), s.end, nil}))
	}
	w.write(w.end(time.Unix(1, 2), 3))
	require.NoError(t, w.flush())
	return eventtest.DrawPerfetto(out.Bytes())
}

// TestPerfetto: there are as many slices as spans, each with its exact times, arguments and name, whatever overlaps.
func TestPerfetto(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var many []interval
	for range 20_000 {
		start := random.Int64N(100_000)
		many = append(many, interval{start, start + random.Int64N(200)})
	}
	for name, c := range map[string]struct {
		spans      []interval
		goroutines int
		depth      []int // of the spans
	}{
		"nested":                       {[]interval{{2, 3}, {4, 5}, {1, 6}, {0, 7}}, 1, []int{2, 2, 1, 0}},
		"three that start together":    {[]interval{{1, 2}, {1, 3}, {1, 4}}, 1, []int{0, 0, 0}},
		"overlapping":                  {[]interval{{0, 5}, {3, 8}}, 1, []int{0, 0}},
		"of no time":                   {[]interval{{3, 3}, {3, 3}, {0, 5}, {5, 5}, {5, 6}}, 1, []int{1, 1, 0, 0, 0}},
		"one after another":            {[]interval{{0, 5}, {5, 9}, {9, 9}, {9, 12}}, 1, []int{0, 0, 0, 0}},
		"ends together":                {[]interval{{4, 9}, {2, 9}, {0, 9}}, 1, []int{2, 1, 0}},
		"many, in 3 goroutines":        {many, 3, nil},
		"many, in 10,000 goroutines":   {many, 10_000, nil},
		"before the first event's own": {[]interval{{0, 0}}, 1, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			slices.SortStableFunc(c.spans, func(a, b interval) int { return cmp.Compare(a.end, b.end) })
			all, clocks := drawn(t, c.spans, c.goroutines)
			require.Equal(t, map[uint64]uint64{clockTrace: 0, clockRealtime: 1e9 + 2}, clocks)
			slicesDrawn, instants := 0, 0
			for _, d := range all {
				if d.Instant {
					instants++
					continue
				}
				slicesDrawn++
				i := int(d.Args["i"].(int64))
				require.Equal(t, c.spans[i], interval{d.Start, d.End}, "%d", i)
				require.Equal(t, fmt.Sprintf("p:\"%d\uFFFD", i), d.Name)
				require.Equal(t, []any{"p", "program 7", 1}, []any{d.Category, d.Process, len(d.Args)})
				require.Regexp(t, fmt.Sprintf(`^goroutine %d( \(\d+\))?$`, 1+i%c.goroutines), d.Track)
				if c.depth != nil {
					require.Equal(t, c.depth[i], d.Depth, "%d %v", i, c.spans)
				}
			}
			require.Equal(t, len(c.spans), slicesDrawn)
			require.Equal(t, len(c.spans)+1, instants)
		})
	}
}

// TestProcesses: the goroutines of several processes, which have the same numbers, have tracks of their own, side by side.
func TestProcesses(t *testing.T) {
	var out bytes.Buffer
	w, err := create(&console.Console{Out: &out}, "-", "perfetto")
	require.NoError(t, err)
	tracks, files := tracks{writer: w}, []*replay.File{{}, {}, {}}
	for i := range 30 {
		pid := i%3 + 1
		e := &recording.Event{PID: uint32(pid), Goroutine: uint64(1 + i%2), Executable: fmt.Sprint("program", pid)}
		to := tracks.of(e, files[i%3])
		to.open++
		start := int64(i / 6) // those of all processes overlap
		to.open--
		w.write(w.span(&mark{"p:span", to.process, tracks.number(to, to.lane(start, start+1)), start, []evaluate.Shown{{Name: "pid", JSON: json.RawMessage(fmt.Sprint(pid))}}}, 1))
	}
	w.write(w.end(time.Unix(1, 2), 3))
	require.NoError(t, w.flush())
	all, _ := eventtest.DrawPerfetto(out.Bytes())
	shown := map[string]int{}
	for _, d := range all {
		if !d.Instant {
			shown[fmt.Sprintf("%v: %s, %s", d.Args["pid"], d.Process, d.Track)]++
			require.Zero(t, d.Depth)
		}
	}
	want := map[string]int{}
	for pid := 1; pid <= 3; pid++ {
		for goroutine := 1; goroutine <= 2; goroutine++ {
			want[fmt.Sprintf("%d: program%[1]d %[1]d, goroutine %d", pid, goroutine)] = 5
		}
	}
	require.Equal(t, want, shown)
}

// TestArguments: the values of arguments keep their types.
func TestArguments(t *testing.T) {
	for text, want := range map[string]any{
		"true": true, "false": false, "0": int64(0), "-1": int64(-1), "9223372036854775807": int64(1<<63 - 1), "18446744073709551615": uint64(1<<64 - 1),
		"1.5": 1.5, "1e300": 1e300, `"a\"b\u0000"`: "a\"b\x00", `""`: "", `{"a":1}`: `{"a":1}`, "null": "null",
	} {
		m := &mark{name: "p:n", args: []evaluate.Shown{{Name: "a", JSON: json.RawMessage(text)}}}
		var track message
		track.number(trackUUID, threadUUID(0))
		b := append(packet(0, packetDescriptor, track), perfetto{}.instant(m)...)
		all, _ := eventtest.DrawPerfetto(b)
		require.Equal(t, map[string]any{"a": want}, all[0].Args, text)
	}
}

// TestFinished: a lane remembers a limited number of spans that have ended.
func TestFinished(t *testing.T) {
	nested := &track{lanes: make([]lane, 1)}
	for i := range int64(5000) {
		require.Zero(t, nested.lane(5000-i, 5001+i), "each lies in the next one")
	}
	require.LessOrEqual(t, len(nested.lanes[0].finished), maxFinished)
}
