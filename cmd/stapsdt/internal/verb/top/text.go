package top

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

// column is a column of numbers. The rows can be sorted by it.
type column struct {
	name   string
	number func(*line) float64 // nil for the name of the operation
	text   func(*line) string
	least  int // the minimum width of a terminal that shows it
}

func perSecond(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

// number returns a quantile, or 0 if there is none.
func number(f *render.JSONFloat) float64 {
	if f == nil {
		return 0
	}
	return float64(*f)
}

func duration(f float64) string {
	if f == 0 {
		return "-"
	}
	return render.Duration(f)
}

// The columns that both tables have.
var (
	rateColumn = column{
		"RATE/S",
		func(l *line) float64 { return l.Rate },
		func(l *line) string { return perSecond(l.Rate) },
		40,
	}
	p50Column = column{
		"P50",
		func(l *line) float64 { return number(l.P50) },
		func(l *line) string { return duration(number(l.P50)) },
		60,
	}
	p99Column = column{
		"P99",
		func(l *line) float64 { return number(l.P99) },
		func(l *line) string { return duration(number(l.P99)) },
		60,
	}
)

// columns are the columns of the table of operations.
var columns = []column{
	rateColumn,
	{
		"OPEN",
		func(l *line) float64 { return float64(l.Open) },
		func(l *line) string { return fmt.Sprint(l.Open) },
		30,
	},
	{
		"ERR/S",
		func(l *line) float64 { return l.Errors },
		func(l *line) string { return perSecond(l.Errors) },
		60,
	},
	p50Column,
	p99Column,
	{
		"LONGEST",
		func(l *line) float64 { return float64(l.Longest) },
		func(l *line) string { return duration(float64(l.Longest)) },
		70,
	},
	{"OPERATION", nil, nil, 0},
}

// defaultColumn is the column by which rows are sorted initially, so that the busiest ones come
// first.
var defaultColumn = &columns[0]

// head returns the first line. The most important part comes first, so that a narrow terminal does
// not cut it.
func (s *snapshot) head(width int) string {
	if s.functions != nil {
		return s.functionHead()
	}
	var rate, errors float64
	for i := range s.lines {
		rate += s.lines[i].Rate
		errors += s.lines[i].Errors
	}
	parts := []string{
		s.at.Format(time.TimeOnly), perSecond(rate) + " operations/s",
		perSecond(errors) + " errors/s", fmt.Sprintf("%d open", s.allOpen),
		"of the last " + render.Duration(float64(s.window)),
	}
	if s.past != nil && width >= 60 {
		parts[3] += " (since " + s.past.Since().Format(time.TimeOnly) + ")"
	}
	if width < 60 {
		parts[1], parts[3] = parts[3], parts[1]
	}
	if name := s.common(width); name != "" {
		parts = slices.Insert(parts, 1, render.Printable(name))
	}
	return strings.Join(parts, "  ")
}

// common returns the operation that all rows have, if --by divides it and the width is limited. The
// tables then leave it out.
func (s *snapshot) common(width int) string {
	if width == text.Unlimited || len(s.names) == 0 || len(s.lines) == 0 || s.nested {
		return ""
	}
	name := s.lines[0].Operation
	for i := range s.lines {
		if s.lines[i].Operation != name {
			return ""
		}
	}
	for i := range s.open {
		if s.open[i].Operation != name {
			return ""
		}
	}
	return name
}

// notes returns lines about events and operations that are not shown.
func (s *snapshot) notes() (all []string) {
	if s.functions != nil {
		return s.functions.Notes()
	}
	if s.lost > 0 {
		all = append(all, render.Number(s.lost, "event")+" lost")
	}
	if s.unknown > 0 {
		all = append(all, fmt.Sprintf("%s not counted as open, because their ends may be lost", render.Number(s.unknown, "operation")))
	}
	if s.others > 0 {
		all = append(all, fmt.Sprintf("%s of other rows: too many values of --by", render.Number(s.others, "operation")))
	}
	if s.full > 0 {
		all = append(all, fmt.Sprintf("%s had no room: too many are open", render.Number(s.full, "start")))
	}
	if s.before > 0 && s.lost == 0 {
		all = append(all, fmt.Sprintf("%s that began before this ended: not included", render.Number(s.before, "operation")))
	}
	return all
}

// rows returns the lines of the table of operations, beginning with the heading.
func (s *snapshot) rows(all []line, width int) []string {
	table := render.Table{Width: width}
	var head []string
	var shown []column
	for _, c := range s.columns() {
		if c.number != nil && width >= c.least {
			shown, head = append(shown, c), append(head, c.name)
		}
	}
	table.Right = len(shown)
	common := s.common(width)
	if common == "" {
		head = append(head, s.columns()[len(s.columns())-1].name)
	}
	table.Add(append(head, s.names...)...)
	for i := range all {
		var cells []string
		for _, c := range shown {
			cells = append(cells, c.text(&all[i]))
		}
		if common == "" {
			cells = append(cells, all[i].Operation)
		}
		for _, v := range all[i].by {
			cells = append(cells, v.Text)
		}
		table.Add(cells...)
	}
	return split(table.Text())
}

// threadHead returns the heading of the threads of operations, or "" if they are not known: events
// of a page have none.
func threadHead(all []opened) (heading string) {
	for i := range all {
		switch {
		case all[i].Goroutine != 0:
			return "GOROUTINE"
		case all[i].TID != 0:
			heading = "TID"
		}
	}
	return heading
}

// openRows returns the lines of the table of open operations, beginning with the heading. Nested
// ones have their IDs.
func (s *snapshot) openRows(all []opened, width int) []string {
	narrow, tiny := width < 60, width < 40
	head, thread := []string{"OPEN FOR"}, ""
	if !narrow {
		head, thread = append(head, "PID"), threadHead(all)
	}
	if thread != "" {
		head = append(head, thread)
	}
	table := render.Table{Width: width, Right: len(head)}
	withName := tiny || s.common(width) == ""
	if withName {
		head = append(head, "OPERATION")
	}
	if !tiny {
		head = append(head, "ARGUMENTS")
	}
	table.Add(head...)
	for i := range all {
		o := &all[i]
		cells := []string{render.OpenFor(o.Nanoseconds, o.Unknown)}
		if !narrow {
			cells = append(cells, fmt.Sprint(o.PID))
		}
		if thread != "" {
			cells = append(cells, fmt.Sprint(o.thread()))
		}
		name := o.Operation
		if s.nested {
			name = strings.Repeat("  ", min(o.depth, maxIndent)) + name + " " + o.key.Text
		}
		if withName {
			cells = append(cells, name)
		}
		if !tiny {
			cells = append(cells, o.arguments())
		}
		table.Add(cells...)
	}
	return split(table.Text())
}

func split(text []byte) []string {
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// text returns a whole screen for a file or a pipe, or for a terminal that has no keys.
func (s *snapshot) text(width int) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, render.Cut(s.head(width), max(width, 1)))
	for _, note := range s.notes() {
		fmt.Fprintln(&b, render.Cut(note, max(width, 1)))
	}
	for _, line := range s.rows(s.sorted(s.defaultColumn(), ""), width) {
		fmt.Fprintln(&b, line)
	}
	if len(s.open) > 0 {
		fmt.Fprintln(&b)
		most := min(len(s.open), maxListed)
		if s.nested {
			most = min(len(s.open), maxListedRecorded)
		}
		for _, line := range s.openRows(s.open[:most], width) {
			fmt.Fprintln(&b, line)
		}
		if rest := s.allOpen + s.unknown - most; rest > 0 {
			fmt.Fprintf(&b, "and %d more\n", rest)
		}
	}
	return b.Bytes()
}

const (
	// maxListed is the maximum number of open operations on a screen without keys, and
	// maxListedRecorded the maximum for a recording.
	maxListed         = 10
	maxListedRecorded = 100
	// maxIndent is the depth beyond which operations are not indented further.
	maxIndent = 10
)
