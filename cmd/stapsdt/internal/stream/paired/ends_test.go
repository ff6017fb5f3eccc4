package paired

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// ends returns the Ends of some probes for a command that selects them, with expressions and a condition.
func ends(t testing.TB, selected, where string, exprs []string, all ...*recording.Probe) (*Ends, *replay.Reader) {
	t.Helper()
	needs := &replay.Needs{Starts: true, Exprs: exprs}
	r, err := replay.New(querytest.Specs(strings.Fields(selected)...), where, needs.Unfit)
	require.NoError(t, err)
	r.Pairing = Of(needs, where)
	for _, p := range all {
		r.NewFilter(p, all)
	}
	return New(r), r
}

// event returns an event of a process at a number of milliseconds.
func event(ms int, pid uint32, p *recording.Probe, words []uint64, texts ...string) *recording.Event {
	e := &recording.Event{}
	at := time.Duration(ms) * time.Millisecond
	e.Reset(p, &recording.Event{Monotonic: at, Realtime: int64(at), PID: pid, Goroutine: 1})
	for i := range p.Args {
		if strings.HasPrefix(p.Args[i].Name, "text") {
			e.SetText(i, []byte(texts[0]))
			texts = texts[1:]
		} else {
			e.Set(i, words[0])
			words = words[1:]
		}
	}
	return e
}

// text returns an event as text, or "" if it is nil.
func text(e *recording.Event) string {
	if e == nil {
		return ""
	}
	return eventtest.Text(e)
}

// said returns what is reported.
func said(x *Ends) string {
	var b bytes.Buffer
	x.Report(&console.Console{Out: &bytes.Buffer{}, Err: &b})
	return b.String()
}

// TestValues: an end has the exact time since its start and the arguments of this, and the condition is evaluated for them.
func TestValues(t *testing.T) {
	r := &eventtest.Recording{}
	start := r.Probe("p", "op__start", "id", "textpath", "size", "status")
	end := r.Probe("p", "op__end", "id", "textnote", "status")
	x, _ := ends(t, "p:op__end", "elapsed >= 7ms && size != 9", []string{"start.textpath", "start.status", "status"}, start, end)
	f := replay.NewFile(&replay.Process{})
	require.Empty(t, text(x.Take(event(1, 1, start, []uint64{1, 8, 5}, "/one"), f)))
	require.Empty(t, text(x.Take(event(2, 1, start, []uint64{2, 9, 6}, "/two"), f)))
	require.Empty(t, text(x.Take(event(3, 1, start, []uint64{3, 8, 7}, ""), f)))
	require.Equal(t, "p:op__end id=1 textnote=a note status=200 elapsed=7000000 size=8 start.status=5 start.textpath=/one", text(x.Take(event(8, 1, end, []uint64{1, 200}, "a note"), f)))
	require.Empty(t, text(x.Take(event(9, 1, end, []uint64{2, 200}, ""), f)), "the condition is false for its start")
	require.Empty(t, text(x.Take(event(9, 1, end, []uint64{3, 200}, ""), f)), "it was fast")
	require.Empty(t, said(x))
}

// TestOwnElapsed: an argument called elapsed keeps its name, while the other values come from the start.
func TestOwnElapsed(t *testing.T) {
	r := &eventtest.Recording{}
	start, end := r.Probe("p", "op__start", "id", "size"), r.Probe("p", "op__end", "id", "elapsed")
	f := replay.NewFile(&replay.Process{})
	x, reader := ends(t, "p:op__end", "elapsed == 3", nil, start, end)
	require.False(t, reader.Pairs())
	e := event(8, 1, end, []uint64{1, 3})
	require.Same(t, e, x.Take(e, f), "without its start")
	x, reader = ends(t, "p:op__end", "elapsed == 3", []string{"size"}, start, end)
	require.True(t, reader.Pairs())
	x.Take(event(1, 1, start, []uint64{1, 8}), f)
	require.Equal(t, "p:op__end id=1 elapsed=3 size=8", text(x.Take(e, f)))
}

// TestProcesses: processes have operations with the same ID at the same time, and forget them when they end.
func TestProcesses(t *testing.T) {
	r := &eventtest.Recording{}
	start, end := r.Probe("p", "op__start", "id", "size"), r.Probe("p", "op__done", "id")
	x, _ := ends(t, "p:*", "", []string{"elapsed", "start.size"}, start, end)
	one, two := replay.NewFile(&replay.Process{}), replay.NewFile(&replay.Process{})
	x.Take(event(1, 1, start, []uint64{7, 10}), one)
	x.Take(event(2, 2, start, []uint64{7, 20}), one)
	x.Take(event(3, 1, start, []uint64{7, 30}), two)
	x.Take(event(4, 3, start, []uint64{7, 40}), two)
	require.Equal(t, "p:op__done id=7 elapsed=8000000 start.size=20", text(x.Take(event(10, 2, end, []uint64{7}), one)))
	require.Equal(t, "p:op__done id=7 elapsed=9000000 start.size=10", text(x.Take(event(10, 1, end, []uint64{7}), one)))
	require.Equal(t, "p:op__done id=7 elapsed=7000000 start.size=30", text(x.Take(event(10, 1, end, []uint64{7}), two)))
	x.Gone(two)
	require.Empty(t, text(x.Take(event(11, 3, end, []uint64{7}), two)))
	require.Equal(t, "stapsdt: not included: 1 operation that began earlier, or whose start was lost\n", said(x))
}

// TestStrays: ends without a start are left out and counted, and so is a second end. A second start replaces the first.
func TestStrays(t *testing.T) {
	r := &eventtest.Recording{}
	start, end := r.Probe("p", "op__start", "id", "size"), r.Probe("p", "op__end", "id")
	x, _ := ends(t, "p:op__end", "", []string{"elapsed", "size"}, start, end)
	f := replay.NewFile(&replay.Process{})
	lost := event(1, 1, end, []uint64{1})
	lost.Missing = 2
	require.Nil(t, x.Take(lost, f), "before the first start")
	x.Take(event(2, 1, start, []uint64{1, 10}), f)
	x.Take(event(3, 1, start, []uint64{1, 11}), f)
	got := x.Take(event(5, 1, end, []uint64{1}), f)
	require.Equal(t, "p:op__end id=1 elapsed=2000000 size=11", text(got))
	require.EqualValues(t, 2, got.Missing, "missing events are not forgotten with those that are left out")
	require.Nil(t, x.Take(event(6, 1, end, []uint64{1}), f))
	require.Equal(t, "stapsdt: not included: 2 operations that began earlier, or whose start was lost\n", said(x))
}

// TestRoom: the number of open operations is bounded, and what has no room is said.
func TestRoom(t *testing.T) {
	r := &eventtest.Recording{}
	start, end := r.Probe("p", "op__start", "id"), r.Probe("p", "op__end", "id")
	x, _ := ends(t, "p:op__end", "elapsed >= 0", nil, start, end)
	f := replay.NewFile(&replay.Process{})
	for id := range uint64(query.MaxOpen + 2) {
		x.Take(event(1, 1, start, []uint64{id}), f)
	}
	require.NotNil(t, x.Take(event(2, 1, end, []uint64{0}), f))
	require.Contains(t, said(x), fmt.Sprintf("2 starts are not included, because more than %d operations were open", query.MaxOpen))
}

// TestSelectedStarts: starts that are selected too are delivered as they are.
func TestSelectedStarts(t *testing.T) {
	r := &eventtest.Recording{}
	start, end, tick := r.Probe("p", "op__start", "id", "size", "elapsed"), r.Probe("p", "op__end", "id"), r.Probe("p", "tick", "size", "elapsed")
	x, _ := ends(t, "p:*", "size > 5 && elapsed >= 0", nil, start, end, tick)
	f := replay.NewFile(&replay.Process{})
	require.Equal(t, "p:op__start id=1 size=6 elapsed=0", text(x.Take(event(1, 1, start, []uint64{1, 6, 0}), f)))
	require.Empty(t, text(x.Take(event(1, 1, start, []uint64{2, 5, 0}), f)))
	require.Equal(t, "p:op__end id=1 elapsed=0 size=6", text(x.Take(event(1, 1, end, []uint64{1}), f)))
	require.Empty(t, text(x.Take(event(1, 1, end, []uint64{2}), f)))
	require.Equal(t, "p:tick size=9 elapsed=0", text(x.Take(event(1, 1, tick, []uint64{9, 0}), f)), "the reader evaluates its condition")
}

// TestCut: of a text of a start, as much is kept as is shown, and what is cut says so. An expression that needs its end has no value.
func TestCut(t *testing.T) {
	r := &eventtest.Recording{}
	start, end := r.Probe("p", "op__start", "id", "textpath"), r.Probe("p", "op__end", "id")
	f := replay.NewFile(&replay.Process{})
	long := strings.Repeat("a", evaluate.TextSize-1) + "é"
	x, reader := ends(t, "p:op__end", "", []string{"start.textpath"}, start, end)
	x.Take(event(1, 1, start, []uint64{1}, long), f)
	x.Take(event(1, 1, start, []uint64{2}, long[:evaluate.TextSize-1]), f)
	got := x.Take(event(2, 1, end, []uint64{1}), f)
	require.Equal(t, "p:op__end id=1 start.textpath="+long[:evaluate.TextSize-1], text(got), "no half characters")
	require.EqualValues(t, 0b10, got.Cut)
	got = x.Take(event(2, 1, end, []uint64{2}), f)
	require.Equal(t, "p:op__end id=2 start.textpath="+long[:evaluate.TextSize-1], text(got))
	require.Zero(t, got.Cut)
	x, reader = ends(t, "p:op__end", "len(start.textpath) > 3", nil, start, end)
	x.Take(event(1, 1, start, []uint64{1}, long), f)
	require.Nil(t, x.Take(event(2, 1, end, []uint64{1}), f))
	require.EqualValues(t, 1, reader.Faults)
}

// TestVersions: a start of another version, whose argument has another type, leaves the value of the end unknown.
func TestVersions(t *testing.T) {
	r := &eventtest.Recording{}
	start, end := r.Probe("p", "op__start", "id", "textsize", "n"), r.Probe("p", "op__end", "id")
	other := r.Probe("p", "op__start", "id", "n")
	x, _ := ends(t, "p:op__end", "", []string{"start.textsize", "n"}, start, end, other)
	f := replay.NewFile(&replay.Process{})
	x.Take(event(1, 1, start, []uint64{1, 3}, "big"), f)
	x.Take(event(1, 1, other, []uint64{2, 4}), f)
	got := x.Take(event(2, 1, end, []uint64{1}), f)
	require.Equal(t, "p:op__end id=1 n=3 start.textsize=big", text(got))
	require.Zero(t, got.Unreadable)
	got = x.Take(event(2, 1, end, []uint64{2}), f)
	require.Equal(t, "p:op__end id=2 n=4 start.textsize=", text(got))
	require.EqualValues(t, 0b100, got.Unreadable)
}

// TestAllocations: an operation that is not selected allocates nothing once others have ended.
func TestAllocations(t *testing.T) {
	r := &eventtest.Recording{}
	start, end := r.Probe("p", "op__start", "id", "textpath"), r.Probe("p", "op__end", "id")
	x, _ := ends(t, "p:op__end", "elapsed > 5ms", []string{"textpath"}, start, end)
	f := replay.NewFile(&replay.Process{})
	begin, finish := event(1, 1, start, []uint64{1}, "/path"), event(2, 1, end, []uint64{1})
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		x.Take(begin, f)
		if x.Take(finish, f) != nil {
			t.Fatal("it was fast")
		}
	}))
}
