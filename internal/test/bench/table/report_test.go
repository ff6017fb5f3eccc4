//go:build linux

package table

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// report is the document of a run: all tables, in sections.
type report struct {
	machine string
	text    strings.Builder
}

// section prints a part of the document, and adds it.
func (w *report) section(title, tables string) {
	fmt.Print("\n", tables)
	fmt.Fprintf(&w.text, "\n## %s\n\n%s", title, tables)
}

// The paths are relative to the root of the repository.
const (
	measuredPath = "docs/measured/cost.md"
	pagePath     = "docs/cost.md"
)

// publish writes the document, and puts the tables that decide into the page, each between its marks.
func (w *report) publish(t testing.TB, r results) {
	require.NoError(t, os.WriteFile(measuredPath, []byte("# Measured by scripts/bench.sh\n\n[What it means](../cost.md). "+w.machine+".\n"+
		"A row or figure whose quartiles are more than a tenth of it apart is left out.\n"+w.text.String()), 0o644))
	page, err := os.ReadFile(pagePath)
	require.NoError(t, err)
	text := string(page)
	for _, table := range pageTables() {
		text = betweenMarks(t, text, table.mark, r.pageTable(table))
	}
	text = betweenMarks(t, text, "machine", w.machine+".\n")
	require.NoError(t, os.WriteFile(pagePath, []byte(text), 0o644))
}

// betweenMarks returns a page with another text between the lines <!-- MARK --> and <!-- /MARK -->.
func betweenMarks(t testing.TB, page, mark, text string) string {
	first, last := "<!-- "+mark+" -->\n", "<!-- /"+mark+" -->\n"
	before, rest, found := strings.Cut(page, first)
	require.True(t, found, "no line %s", first)
	_, after, found := strings.Cut(rest, last)
	require.True(t, found, "no line %s", last)
	return before + first + text + last + after
}
