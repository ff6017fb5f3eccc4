package render

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table aligns columns.
type Table struct {
	// Right is how many of the first columns are aligned to the right.
	Right int

	rows [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Text returns the table.
func (t *Table) Text() []byte {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
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

// Replace returns what clears the last lines of a terminal.
func Replace(lines int) []byte {
	if lines == 0 {
		return nil
	}
	return fmt.Appendf(nil, "\x1b[%dA\r\x1b[J", lines)
}
