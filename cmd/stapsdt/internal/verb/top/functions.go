package top

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/functions"
)

// recent holds the last tables of functions.
type recent struct {
	tables []*functions.Table // the oldest first
	at     []time.Time
}

// add adds a table, and returns the calls that have returned since the oldest one of the last
// slots, and the time since then.
func (r *recent) add(t *functions.Table, at time.Time) (*functions.Table, time.Duration) {
	if len(r.tables) == slots+1 {
		r.tables, r.at = r.tables[1:], r.at[1:]
	}
	r.tables, r.at = append(r.tables, t), append(r.at, at)
	return t.Since(r.tables[0]), at.Sub(r.at[0])
}

// runFunctions shows the calls of functions until the run ends.
func runFunctions(
	ctx context.Context, to *console.Console, config query.Config, o *Options,
	show func(*snapshot) error,
) error {
	by, _ := functions.CutBy(o.By)
	measured := count.Options{
		Expressions: count.Expressions{By: by, Buckets: query.Powers{}}, From: o.From,
	}
	calls, err := functions.Open(to, config, &measured)
	if err != nil {
		return err
	}
	defer calls.Close()
	interval, err := query.NewInterval(o.Interval)
	if err != nil {
		return err
	}
	last, left := recent{}, cmp.Or(o.Screens, -1)
	take := func(isLast bool) error {
		t, err := calls.Table()
		if err != nil {
			return err
		}
		s := functionSnapshot(last.add(t, time.Now()))
		s.last = isLast
		return show(s)
	}
	last.add(&functions.Table{}, time.Now())
	err = calls.Run(ctx, func() (next time.Duration, more bool, err error) {
		due, next := interval.Due()
		if due {
			left--
			err = take(left == 0)
		}
		return next, left != 0, err
	})
	if err == nil && left != 0 {
		err = take(true)
	}
	if err != nil {
		return err
	}
	return calls.Report()
}

// functionSnapshot returns the snapshot of a table of calls that have returned in a time.
func functionSnapshot(t *functions.Table, window time.Duration) *snapshot {
	s := &snapshot{at: time.Now(), window: window, functions: t, names: t.By, lines: []line{}}
	seconds := max(window.Seconds(), 1e-9)
	for _, r := range t.Rows {
		l := line{row: r, histogram: r.Took, jsonLine: jsonLine{
			Operation: r.Of.String(), By: r.By(t.By), Count: r.Count,
			Rate: float64(r.Count) / seconds,
		}}
		for i, name := range t.By {
			value := evaluate.Shown{Name: name, Text: r.Row.Text[i], JSON: r.Row.JSON[i]}
			l.by = append(l.by, value)
		}
		p50, p99 := render.JSONFloat(r.Took.Quantile(0.5)), render.JSONFloat(r.Took.Quantile(0.99))
		l.P50, l.P99 = &p50, &p99
		l.own = t.OwnText(float64(r.Own))
		s.lines = append(s.lines, l)
	}
	return s
}

// functionColumns are the columns of the table of functions.
var functionColumns = []column{
	rateColumn,
	{
		"COUNT",
		func(l *line) float64 { return float64(l.Count) },
		func(l *line) string { return fmt.Sprint(l.Count) },
		70,
	},
	p50Column,
	p99Column,
	{
		"MAX",
		func(l *line) float64 { return l.row.Took.Quantile(1) },
		func(l *line) string { return duration(l.row.Took.Quantile(1)) },
		70,
	},
	{
		"TOTAL",
		func(l *line) float64 { return float64(l.row.Total) },
		func(l *line) string { return duration(float64(l.row.Total)) },
		0,
	},
	{
		"OWN",
		func(l *line) float64 { return float64(l.row.Own) },
		func(l *line) string { return l.own },
		30,
	},
	{"FUNCTION", nil, nil, 0},
}

// defaultFunctionColumn is TOTAL.
var defaultFunctionColumn = &functionColumns[5]

// columns returns the columns of the lines.
func (s *snapshot) columns() []column {
	if s.functions != nil {
		return functionColumns
	}
	return columns
}

// defaultColumn returns the column by which lines are sorted initially.
func (s *snapshot) defaultColumn() *column {
	if s.functions != nil {
		return defaultFunctionColumn
	}
	return defaultColumn
}

// functionHead returns the first line of a screen of functions.
func (s *snapshot) functionHead() string {
	var rate float64
	for i := range s.lines {
		rate += s.lines[i].Rate
	}
	return strings.Join([]string{
		s.at.Format(time.TimeOnly), perSecond(rate) + " calls/s",
		render.Number(len(s.lines), "function"),
		"of the last " + render.Duration(float64(s.window)),
	}, "  ")
}

// JSONFunctions is a snapshot of functions in JSON.
type JSONFunctions struct {
	Time      time.Time      `json:"time" doc:"at which the line was printed"`
	Seconds   float64        `json:"seconds" doc:"of rates and quantiles; the time that they cover"`
	Functions []jsonFunction `json:"functions" doc:"a row for each function and values of --by"`
	functions.JSONNotes
}

// jsonFunction is a row of a snapshot of functions in JSON.
type jsonFunction struct {
	Function string  `json:"function" doc:"PROVIDER:PROBE"`
	Rate     float64 `json:"rate" doc:"per second; calls that returned"`
	functions.JSONRow
	P50 render.JSONFloat `json:"p50" doc:"in nanoseconds; of the times"`
	P99 render.JSONFloat `json:"p99" doc:"in nanoseconds; of the times"`
	Max render.JSONFloat `json:"max" doc:"in nanoseconds; of the times"`
}

// encodeFunctions writes a snapshot of functions as an object.
func (s *snapshot) encodeFunctions(w io.Writer) error {
	j := JSONFunctions{
		Time: s.at.UTC(), Seconds: s.window.Seconds(), Functions: []jsonFunction{},
		JSONNotes: s.functions.JSONNotes(),
	}
	for _, l := range s.sorted(defaultFunctionColumn, "") {
		j.Functions = append(j.Functions, jsonFunction{
			l.Operation, l.Rate, s.functions.JSON(l.row), *l.P50, *l.P99,
			render.JSONFloat(l.row.Took.Quantile(1)),
		})
	}
	return render.NewEncoder(w).Encode(j)
}
