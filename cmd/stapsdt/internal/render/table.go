package render

import (
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/text"
)

// Table aligns columns.
type Table struct {
	// Right is the number of leading columns that are aligned to the right.
	Right int
	// Width is the maximum width of the table in columns, or 0 for no limit. Cells are cut to fit.
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
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			cell = Cut(cell, widths[i])
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

// Cut cuts text to at most width columns of a terminal. A text that was cut ends in ….
func Cut(s string, width int) string { return text.Cut(s, width) }
