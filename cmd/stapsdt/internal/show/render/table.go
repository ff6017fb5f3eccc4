package render

import (
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

// Table aligns columns.
type Table struct {
	// Right is the number of leading columns that are aligned to the right.
	Right int
	// Width is the maximum width of the table in columns, or 0 for no limit. Cells are cut to fit,
	// such that rows that differ stay different if possible.
	Width int

	rows [][]string
}

// Add adds a row. It replaces unprintable characters.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = Printable(cell)
	}
	t.rows = append(t.rows, row)
}

// Text returns the table.
func (t *Table) Text() []byte {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], text.Width(cell))
		}
	}
	t.narrow(widths)
	for i, width := range widths {
		t.cut(i, width)
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-text.Width(cell))
			switch {
			case i < t.Right:
				cell = space + cell
			case i < len(row)-1:
				cell += space
			}
			if i > 0 {
				b.WriteString("  ")
			}
			b.WriteString(cell)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// narrow shrinks the widest cells until all fit.
func (t *Table) narrow(widths []int) {
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; t.Width > 0 && total > t.Width; total-- {
		widest := -1
		for i := t.Right; i < len(widths); i++ {
			if widths[i] > minCell && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// minCell is the minimum width of a cell that is cut.
const minCell = 4

// cut cuts the cells of a column: their ends, or their beginnings or middles if this leaves more of
// them different.
func (t *Table) cut(column, width int) {
	var cells []string
	isWide := false
	for _, row := range t.rows {
		if column < len(row) {
			if text.Width(row[column]) > width {
				isWide, row[column] = true, withoutPath(row[column])
			}
			cells = append(cells, row[column])
		}
	}
	if !isWide {
		return
	}
	best, most := cells, 0
	for _, tail := range []int{0, width / 2, width} {
		shown, different := make([]string, len(cells)), map[string]bool{}
		for i, cell := range cells {
			shown[i] = text.CutBefore(cell, width, tail)
			different[shown[i]] = true
		}
		if len(different) > most {
			best, most = shown, len(different)
		}
	}
	for _, row := range t.rows {
		if column < len(row) {
			row[column], best = best[0], best[1:]
		}
	}
}

// withoutPath returns the name of a Go function without the path of its package, or any other text
// as it is.
func withoutPath(name string) string {
	function, ok := strings.CutPrefix(name, "go:")
	end := strings.IndexAny(function, "[(")
	if end < 0 {
		end = len(function)
	}
	if i := strings.LastIndexByte(function[:end], '/'); ok && i > 0 {
		return "go:…" + function[i:]
	}
	return name
}

// Cut cuts text to at most width columns of a terminal. A text that was cut ends in ….
func Cut(s string, width int) string { return text.Cut(s, width) }
