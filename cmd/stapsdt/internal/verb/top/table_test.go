package top

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestRows: a table that is full has room again when rows are idle, and until then an operation without a row does not search it.
func TestRows(t *testing.T) {
	table, kind, item := newTable(pairing.Operations{}), &pairing.Kind{Name: "p:op"}, &value.Item{}
	next := uint64(0)
	add := func() bool {
		next++
		r := table.row(kind, []evaluate.Value{{Item: item, Bits: next}})
		if r != nil {
			r.count++
			r.slots[table.slot].count++
		}
		return r != nil
	}
	for range maxRows {
		require.True(t, add())
	}
	require.False(t, add())
	require.True(t, table.full)
	require.NotNil(t, table.row(kind, []evaluate.Value{{Item: item, Bits: 1}}))
	table.rows["open"] = &row{kind: kind, open: 1}
	for n := range slots {
		require.False(t, add(), n)
		table.turn(time.Duration(n + 1))
		require.False(t, table.full)
	}
	require.True(t, add())
	require.Equal(t, uint64(maxRows), table.others)
	require.Len(t, table.rows, 2)
	require.Contains(t, table.rows, "open")
}

// death is a recording of spans.
type death struct {
	table      *table
	file       *replay.File
	start, end *recording.Probe
	now        time.Duration
}

func newDeath() *death {
	d := &death{table: newTable(pairing.Operations{}), file: replay.NewFile(&replay.Process{PID: 1}), now: time.Second}
	d.start, d.end = eventtest.Spans()
	d.table.operations.Know(d.start)
	d.table.operations.Know(d.end)
	d.table.began[0] = d.now
	return d
}

// fire fires a probe some time later.
func (d *death) fire(later time.Duration, p *recording.Probe, words ...uint64) {
	d.now += later
	d.table.turnTo(d.now)
	d.table.add(eventtest.Event(d.now, p, words...), d.file)
}

func (d *death) snapshot() *snapshot { return d.table.snapshot(time.Unix(0, 0), d.now, true) }

// TestLastSecond: the rates of a recording are those of its last second, also after a time without events.
func TestLastSecond(t *testing.T) {
	d := newDeath()
	pair := func(later time.Duration) {
		d.fire(later, d.start, 1, 0)
		d.fire(0, d.end, 1, 0, 0)
	}
	for range 100 {
		pair(100 * time.Millisecond)
	}
	s := d.snapshot()
	require.EqualValues(t, 100, s.lines[0].Count)
	require.InDelta(t, time.Second, s.window, float64(slotOfRecording))
	require.InDelta(t, 10, s.lines[0].Rate, 2)
	pair(time.Hour)
	s = d.snapshot()
	require.EqualValues(t, 101, s.lines[0].Count)
	require.InDelta(t, 1, s.lines[0].Rate, 0.2, "the last second has one")
	require.LessOrEqual(t, s.window, time.Second)
}

// TestEndedElsewhere: an operation that is counted in another row once it has ended, because only its end has a value of --by, leaves
// no row that counts nothing. The one that has ended keeps its row.
func TestEndedElsewhere(t *testing.T) {
	d, kind, item := newDeath(), &pairing.Kind{Name: "p:op"}, &value.Item{}
	rows := func() (counts []uint64) {
		for _, l := range d.snapshot().lines {
			counts = append(counts, l.Count)
		}
		return counts
	}
	d.table.row(kind, []evaluate.Value{{}}).open = 1 // as a screen before has counted it
	ended := d.table.row(kind, []evaluate.Value{{Item: item}})
	ended.count++
	require.Equal(t, []uint64{1}, rows())
	require.Len(t, d.table.rows, 1)
	d.fire(0, d.start, 1, 0)
	require.ElementsMatch(t, []uint64{0, 1}, rows(), "another one is open")
	for range 2 * slots {
		d.table.turn(d.now)
	}
	require.ElementsMatch(t, []uint64{0, 1}, rows(), "and nothing has ended for long")
}

// TestNested: open operations follow those that they are parts of, whatever a hostile program says of them.
func TestNested(t *testing.T) {
	d := newDeath()
	for _, o := range [][2]uint64{
		{1, 0}, {2, 1}, {3, 2}, {4, 1}, {5, 0}, // 5 is the youngest
		{6, 99},        // whose whole is not there
		{7, 8}, {8, 7}, // parts of each other
		{9, 9}, {10, 11}, // its own part; and of one that has ended
	} {
		d.fire(time.Millisecond, d.start, o[0], o[1])
	}
	d.fire(0, d.start, 11, 0)
	d.fire(0, d.end, 11, 0, 0)
	s := d.snapshot()
	var shown []string
	for i := range s.open {
		shown = append(shown, strings.Repeat(" ", s.open[i].depth)+s.open[i].key.Text)
	}
	require.Equal(t, []string{"1", " 2", "  3", " 4", "5", "6", "10", "7", " 8", "9"}, shown)
	shownAll := string(s.text(80))
	require.Regexp(t, regexp.MustCompile(`(?m)^ +0s +1 +1  p:op 1 +\n +0s +1 +1    p:op 2 +\n +0s +1 +1      p:op 3 +$`), shownAll)
	require.Regexp(t, `^\d\d:\d\d:\d\d  10 open`, string(s.text(20)))
	for depth := range uint64(1000) {
		d.fire(0, d.start, 1000+depth, 999+depth)
	}
	require.Len(t, d.snapshot().open, maxOpen)
	for _, line := range strings.Split(string(d.snapshot().text(80)), "\n") {
		require.LessOrEqual(t, len(line), 80)
	}
}

// TestCommon: a terminal does not repeat an operation that all rows have, and a pipe has whole texts.
func TestCommon(t *testing.T) {
	path := func(s string) []evaluate.Shown { return []evaluate.Shown{{Name: "path", Text: strconv.Quote(s)}} }
	long := strings.Repeat("/tenants/initech", 10)
	s := &snapshot{names: []string{"path"}, lines: []line{{jsonLine: jsonLine{Operation: "p:op"}, by: path(long)}, {jsonLine: jsonLine{Operation: "p:op"}, by: path("/")}}}
	s.open = []opened{{jsonOpen: jsonOpen{"p:op", pairing.JSONOpen{TID: 1}, 0}, args: path(long)}}
	lines := strings.Split(string(s.text(80)), "\n")
	require.Regexp(t, `^\d\d:\d\d:\d\d  p:op  0 operations/s`, lines[0])
	require.Regexp(t, `LONGEST  path$`, lines[1])
	require.Regexp(t, `TID  ARGUMENTS$`, lines[5])
	for _, line := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 80)
	}
	s.open[0].TID = 0
	require.Regexp(t, `OPEN FOR  PID  ARGUMENTS\n`, string(s.text(80)), "a page tells no thread")
	whole := string(s.text(text.Unlimited))
	require.Equal(t, 3, strings.Count(whole, "  p:op  "))
	require.Equal(t, 2, strings.Count(whole, strconv.Quote(long)))
	s.open[0].Operation = "p:other"
	require.Contains(t, string(s.text(80)), "  OPERATION  path")
}

// silent is a source without events.
type silent struct{ events.Source }

func (silent) Until() time.Time { return time.Time{} }
func (silent) Lost() uint64     { return 0 }

// TestSnapshotStays: a snapshot that is being drawn stays as it is while processes come.
func TestSnapshotStays(t *testing.T) {
	past := events.NewPast()
	v := &view{
		table: newTable(pairing.Operations{}), stream: &events.Stream{Source: silent{}, Live: true, Past: past},
	}
	recorded := time.Now().Add(-time.Hour)
	past.Known(recorded)
	s := v.snapshot()
	past.Unknown()
	require.Equal(t, recorded, s.past.Since())
	require.NotEqual(t, recorded, v.snapshot().past.Since())
	v.stream.Past = nil
	require.Nil(t, v.snapshot().past)
}

// TestUnreadableRow: what could not be read is not counted as 0.
func TestUnreadableRow(t *testing.T) {
	table, kind, item := newTable(pairing.Operations{}), &pairing.Kind{Name: "p:op"}, &value.Item{}
	zero := table.row(kind, []evaluate.Value{{Item: item}})
	require.NotSame(t, zero, table.row(kind, []evaluate.Value{{Item: item, Missing: true}}))
	require.Same(t, zero, table.row(kind, []evaluate.Value{{Item: item}}))
}
