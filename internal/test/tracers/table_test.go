//go:build linux

package tracers

import (
	"fmt"
	"slices"
	"strings"
)

// kind is a sort of subject: a column of the table of tracers.
type kind struct {
	program string // its file's name
	title   string
	memfd   bool
}

var kinds = []kind{
	{"go-cgo", "Go, cgo", false},
	{"go-cgo", "Go, cgo", true},
	{"go-pure", "pure Go", false},
	{"go-pure", "pure Go", true},
	{"demo", "C", false},
	{"demo", "C", true},
}

// isC reports whether the subject is cstapsdt's demo.
func (k kind) isC() bool { return k.program == "demo" }

func (k kind) String() string {
	if k.memfd {
		return k.title + ", memfd"
	}
	return k.title + ", file"
}

// What a cell can show.
const (
	works      = "works"
	impossible = "no"
	// elsewhere is for a tracer that needs a kernel with headers or modules, which this machine does not have. docs/measured/tracers.md
	// explains the word.
	elsewhere = "guest"
	failed    = "**fails**"
	lacking   = "–" // the subject has nothing that the row is about
)

// result is what a cell shows: a word, and why it is impossible or what else there is to say.
type result struct{ word, why string }

// page is the tables, and below them the reasons that they refer to.
type page struct {
	tables  []*table
	reasons []string
	words   map[string]int // how many cells show each
}

// table is what the tests found, in the order they ran.
type table struct {
	page    *page
	before  string // the paragraph before it, or ""
	columns []string
	lines   []line
}

type line struct {
	tool, version, way string
	cells              []string
}

// table adds a table to the page.
func (p *page) table(before string, columns ...string) *table {
	tb := &table{page: p, before: before, columns: columns}
	p.tables = append(p.tables, tb)
	return tb
}

func (tb *table) add(tool, version, way, column string, r result) {
	last := len(tb.lines) - 1
	if last < 0 || tb.lines[last].tool != tool || tb.lines[last].version != version || tb.lines[last].way != way {
		tb.lines = append(tb.lines, line{tool, version, way, make([]string, len(tb.columns))})
		last++
	}
	tb.page.words[r.word]++
	tb.lines[last].cells[slices.Index(tb.columns, column)] = r.word + tb.page.footnote(r.why)
}

func (p *page) footnote(why string) string {
	if why == "" {
		return ""
	}
	at := slices.Index(p.reasons, why)
	if at < 0 {
		at = len(p.reasons)
		p.reasons = append(p.reasons, why)
	}
	return fmt.Sprintf(" (%d)", at+1)
}

// markdown leaves out tables without lines.
func (p *page) markdown() string {
	var parts []string
	for _, tb := range p.tables {
		if len(tb.lines) > 0 {
			parts = append(parts, tb.markdown())
		}
	}
	if len(p.reasons) > 0 {
		var b strings.Builder
		for i, why := range p.reasons {
			fmt.Fprintf(&b, "%d. %s\n", i+1, why)
		}
		parts = append(parts, b.String())
	}
	return strings.Join(parts, "\n")
}

func (tb *table) markdown() string {
	var b strings.Builder
	if tb.before != "" {
		b.WriteString(tb.before + "\n\n")
	}
	b.WriteString("| tracer | version | use |")
	for _, column := range tb.columns {
		fmt.Fprintf(&b, " %s |", column)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 3+len(tb.columns)) + "\n")
	for _, l := range joined(tb.lines) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.tool, l.version, l.way, strings.Join(l.cells, " | "))
	}
	return b.String()
}

// joined makes one line of neighbors that differ in their use only.
func joined(lines []line) (all []line) {
	for _, l := range lines {
		last := len(all) - 1
		if last >= 0 && all[last].tool == l.tool && all[last].version == l.version && slices.Equal(all[last].cells, l.cells) {
			all[last].way += "; " + l.way
		} else {
			all = append(all, l)
		}
	}
	return all
}

// verdict counts the cells. One that is as impossible as it should be is none of ours.
func (p *page) verdict() string {
	return fmt.Sprintf("%d not possible, for the reasons above; %d passed, %d failed", p.words[impossible]+p.words[elsewhere], p.words[works], p.words[failed])
}
