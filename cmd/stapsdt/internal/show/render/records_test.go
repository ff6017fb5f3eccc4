package render

import (
	"encoding/csv"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

var (
	textType = expr.Type{Kind: expr.String}
	intType  = expr.Type{Kind: expr.Int, Size: 8}
)

// table is a table of events, with the warnings about it.
type table struct {
	Printer
	warnings []string
}

func newTable(s Style) *table {
	t := &table{}
	s.Warn = func(format string, args ...any) { t.warnings = append(t.warnings, fmt.Sprintf(format, args...)) }
	t.Printer = NewPrinter(query.CSV, s)
	return t
}

// know adds a probe with arguments of these names.
func (t *table) know(name string, args ...string) {
	p := &recording.Probe{Provider: "app", Name: name}
	for _, a := range args {
		p.Args = append(p.Args, recording.Arg{Name: a})
	}
	t.Know(p)
}

// event adds an event of the process 7 with these values by name.
func (t *table) event(name string, named ...any) {
	s := &Probe{}
	var values []value.Value
	for i := 0; i < len(named); i += 2 {
		v, ok := named[i+1].(value.Value)
		if !ok {
			v = value.Value{Type: textType, Text: []byte(named[i+1].(string))}
		}
		values = append(values, v)
		s.Items = append(s.Items, value.Item{Name: named[i].(string), Type: v.Type})
	}
	pod := &recording.Pod{Namespace: "ns", Name: "pod", Container: "main"}
	head := recording.Event{Realtime: 1e9 + 2, PID: 7, Pod: pod}
	t.Event(s, nil, eventOf(probeOf("app", name, s.Items), head, s.Items, values))
}

// text returns the table as it is written.
func (t *table) text(tb testing.TB) string {
	t.End(3)
	var b strings.Builder
	require.NoError(tb, t.Flush(&b))
	require.Zero(tb, t.Size())
	return b.String()
}

// rows returns the rows, without the time, the provider, the PID and the thread.
func (t *table) rows(tb testing.TB) (all [][]string) {
	rows, err := csv.NewReader(strings.NewReader(t.text(tb))).ReadAll()
	require.NoError(tb, err)
	for _, row := range rows {
		all = append(all, append(row[2:3:3], row[6:]...))
	}
	return all
}

// TestRecords: a table has a column for each argument if all probes have the same ones.
func TestRecords(t *testing.T) {
	one := newTable(Style{})
	one.know("a", "path", "pid", "n")
	one.know("b", "path", "pid", "n")
	number := value.Value{Type: intType, Bits: 1<<64 - 5}
	one.event("a", "path", "x, \"y\"\r\n\tz\x1b[1m", "pid", "", "n", number)
	one.event("b", "path", value.Value{Type: textType, Missing: true}, "pid", "é\xff", "n", value.Value{Type: intType, Missing: true})
	one.Lost(time.Unix(2, 0), 5)
	require.Equal(t, "time,provider,probe,pid,tid,comm,path,args.pid,n\r\n"+
		"1970-01-01T00:00:01.000000002Z,app,a,7,,,\"x, \"\"y\"\"\ufffd\n\tz\ufffd[1m\",,-5\r\n"+
		"1970-01-01T00:00:01.000000002Z,app,b,7,,,,é\ufffd,\r\n", one.text(t))
	require.Empty(t, one.warnings)
}

// TestRecordsTogether: probes with different arguments have the columns of all.
func TestRecordsTogether(t *testing.T) {
	two := newTable(Style{Pods: true})
	two.know("a", "path")
	two.know("b", "n", "path")
	two.know("c")
	two.event("a", "path", "x,y")
	two.event("b", "n", value.Value{Type: intType, Bits: 3}, "path", "z")
	two.event("c")
	require.Equal(t, [][]string{
		{"probe", "namespace", "pod", "container", "path", "n"},
		{"a", "ns", "pod", "main", "x,y", ""}, {"b", "ns", "pod", "main", "z", "3"}, {"c", "ns", "pod", "main", "", ""},
	}, two.rows(t))
	require.Empty(t, two.warnings)
}

// TestRecordsMany: a table has at most maxColumns columns of values.
func TestRecordsMany(t *testing.T) {
	for _, c := range []struct{ values, columns, warnings int }{
		{maxColumns, maxColumns + 1, 0}, {maxColumns + 1, 2, 1},
	} {
		many := newTable(Style{})
		for i := range c.values {
			many.know("a", fmt.Sprint("v", i))
		}
		rows := many.rows(t)
		require.Len(t, rows[0], c.columns)
		require.Len(t, many.warnings, c.warnings)
	}
}

// TestRecordsShown: what --show asks for has columns whatever the arguments are.
func TestRecordsShown(t *testing.T) {
	shown := newTable(Style{Shown: []string{"len(path)", "n"}})
	shown.know("a", "path")
	shown.know("b", "n")
	shown.event("a", "len(path)", value.Value{Type: intType, Bits: 3}, "n", "m")
	require.Equal(t, [][]string{{"probe", "len(path)", "n"}, {"a", "3", "m"}}, shown.rows(t))
	require.Equal(t, [][]string{{"probe", "args"}}, newTable(Style{}).rows(t), "without a probe")
}

// TestRecordsLate: a probe that comes later fills the columns that it has, and a warning names the others.
func TestRecordsLate(t *testing.T) {
	late := newTable(Style{})
	late.know("a", "path", "n")
	late.event("a", "path", "x", "n", "1")
	late.know("b", "n", "path", "more")
	for range 2 {
		late.event("b", "n", "2", "path", "y", "more", "z")
	}
	late.event("c")
	require.Equal(t, [][]string{
		{"probe", "path", "n"}, {"a", "x", "1"}, {"b", "y", "2"}, {"b", "y", "2"}, {"c", "", ""},
	}, late.rows(t))
	require.Equal(t, []string{"app:b has values without a column, because another probe came first: more"}, late.warnings)
	for i := range 2 * maxWarned {
		late.event(fmt.Sprint("d", i), "more", "z")
	}
	require.Len(t, late.warnings, maxWarned)
}

// TestRecordsOpen: where probes of other programs can come, the first one does not choose the columns.
func TestRecordsOpen(t *testing.T) {
	open := newTable(Style{Open: true})
	open.know("a", "path")
	open.event("a", "path", "x")
	open.event("b", "n", "1")
	require.Equal(t, [][]string{{"probe", "args"}, {"a", `{"path":"x"}`}, {"b", `{"n":"1"}`}}, open.rows(t))
	require.Equal(t, []string{"the arguments are in one column, as JSON: to give them columns, use --show NAME,NAME"}, open.warnings)
}

// TestRecordsTwice: values of the same name share a column, in which both are seen.
func TestRecordsTwice(t *testing.T) {
	twice := newTable(Style{})
	twice.know("a", "x", "x")
	twice.know("a", "x", "x")
	twice.event("a", "x", "1", "x", "2")
	require.Equal(t, [][]string{{"probe", "args"}, {"a", `{"x":"1","x":"2"}`}}, twice.rows(t))
}

// TestRecordsOnTerminal: a text forges no line.
func TestRecordsOnTerminal(t *testing.T) {
	shown := newTable(Style{Terminal: true})
	shown.know("a", "text")
	shown.event("a", "text", "x\nTIME\r\ny")
	require.Equal(t, 2, strings.Count(shown.text(t), "\n"))
}
