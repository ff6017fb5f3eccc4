//go:build linux

package tracers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kind is a sort of subject: a column of the table.
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

type outcome int

const (
	works outcome = iota
	impossible
	failed
	lacking // the subject has nothing that the row is about
)

// result is what a cell shows.
type result struct {
	outcome outcome
	why     string // it is impossible, or what else there is to say
}

type line struct {
	tool, version, way string
	cells              []string
}

// table is what the tests found, in the order they ran.
type table struct {
	lines                      []line
	reasons                    []string
	passed, failed, impossible int
}

func newTable() *table { return new(table) }

func (tb *table) add(tool, version, way string, k kind, r result) {
	last := len(tb.lines) - 1
	if last < 0 || tb.lines[last].tool != tool || tb.lines[last].version != version || tb.lines[last].way != way {
		tb.lines = append(tb.lines, line{tool, version, way, make([]string, len(kinds))})
		last++
	}
	tb.lines[last].cells[slices.Index(kinds, k)] = tb.cell(r)
}

func (tb *table) cell(r result) string {
	switch r.outcome {
	case works:
		tb.passed++
		return "works" + tb.footnote(r.why)
	case lacking:
		return "–"
	case impossible:
		tb.impossible++
		return "no" + tb.footnote(r.why)
	}
	tb.failed++
	return "**fails**"
}

func (tb *table) footnote(why string) string {
	if why == "" {
		return ""
	}
	at := slices.Index(tb.reasons, why)
	if at < 0 {
		at = len(tb.reasons)
		tb.reasons = append(tb.reasons, why)
	}
	return fmt.Sprintf(" (%d)", at+1)
}

// markdown is the table, and below it the reasons that it refers to.
func (tb *table) markdown() string {
	var b strings.Builder
	b.WriteString("| tracer | version | use |")
	for _, k := range kinds {
		fmt.Fprintf(&b, " %s |", k)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 3+len(kinds)) + "\n")
	for _, l := range tb.lines {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.tool, l.version, l.way, strings.Join(l.cells, " | "))
	}
	if len(tb.reasons) > 0 {
		b.WriteString("\n")
	}
	for i, why := range tb.reasons {
		fmt.Fprintf(&b, "%d. %s\n", i+1, why)
	}
	return b.String()
}

// verdict counts the cells. One that is as impossible as it should be is none of ours.
func (tb *table) verdict() string {
	return fmt.Sprintf("%d not possible, for the reasons above; %d passed, %d failed", tb.impossible, tb.passed, tb.failed)
}

func TestTable(t *testing.T) {
	tb := newTable()
	tb.add("x", "1", "-p", kinds[0], result{outcome: works})
	tb.add("x", "1", "-p", kinds[1], result{outcome: impossible, why: "It is so."})
	tb.add("x", "2", "-p", kinds[5], result{outcome: failed})
	tb.add("x", "2", "-p", kinds[4], result{outcome: impossible, why: "It is other."})
	tb.add("x", "2", "-l", kinds[5], result{outcome: works, why: "It is other."})
	tb.add("x", "2", "-l", kinds[4], result{outcome: impossible, why: "It is so."})
	tb.add("x", "2", "-l", kinds[0], result{outcome: lacking})
	require.Equal(t, `| tracer | version | use | Go, cgo, file | Go, cgo, memfd | pure Go, file | pure Go, memfd | C, file | C, memfd |
|---|---|---|---|---|---|---|---|---|
| x | 1 | -p | works | no (1) |  |  |  |  |
| x | 2 | -p |  |  |  |  | no (2) | **fails** |
| x | 2 | -l | – |  |  |  | no (1) | works (2) |

1. It is so.
2. It is other.
`, tb.markdown())
	require.Equal(t, "3 not possible, for the reasons above; 2 passed, 1 failed", tb.verdict())
}
