package docs_test

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// markdownRows returns the rows of the tables of a text that have at least a number of columns, without their titles.
func markdownRows(text string, columns int) (rows [][]string) {
	titles := true
	for line := range strings.Lines(text) {
		inside, isRow := strings.CutPrefix(strings.TrimSpace(line), "| ")
		switch cells := strings.Split(strings.TrimSuffix(inside, " |"), " | "); {
		case strings.HasPrefix(line, "|---"):
			titles = false
		case !isRow:
			titles = true
		case !titles && len(cells) >= columns:
			rows = append(rows, cells)
		}
	}
	return rows
}

var versionPart = regexp.MustCompile(`\d+`)

// compareVersions compares the numbers of two versions.
func compareVersions(a, b string) int {
	x, y := versionPart.FindAllString(a, -1), versionPart.FindAllString(b, -1)
	return slices.CompareFunc(x, y, func(a, b string) int {
		m, _ := strconv.Atoi(a)
		n, _ := strconv.Atoi(b)
		return cmp.Compare(m, n)
	})
}

// summary returns yes, no or partly for the cells of what a tool was tried for.
func summary(cells []string) string {
	works := 0
	for _, c := range cells {
		if strings.HasPrefix(c, "works") {
			works++
		}
	}
	switch works {
	case 0:
		return "no"
	case len(cells):
		return "yes"
	}
	return "partly"
}

// TestNewestTracers: tracers.md has the newest version of each tool that was tried, and says of it what the table of all
// versions says.
func TestNewestTracers(t *testing.T) {
	type tried struct {
		version      string
		file, memory []string
	}
	all := map[string]*tried{}
	for _, row := range markdownRows(readFile(t, root+"docs/measured/tracers.md"), 9) {
		tool, _, _ := strings.Cut(row[0], " ")
		if len(row) != 9 || strings.HasPrefix(row[3], "guest") {
			continue // other programs, or tried with another kernel
		}
		if all[tool] == nil || compareVersions(row[1], all[tool].version) > 0 {
			all[tool] = &tried{version: row[1]}
		}
		if one := all[tool]; one.version == row[1] {
			for i, cell := range row[3:] {
				switch {
				case cell == "–":
				case i%2 == 0:
					one.file = append(one.file, cell)
				default:
					one.memory = append(one.memory, cell)
				}
			}
		}
	}
	require.NotEmpty(t, all)
	said := map[string]bool{}
	for _, row := range markdownRows(readFile(t, root+"docs/tracers.md"), 5) {
		tool := row[0]
		said[tool] = true
		require.Contains(t, all, tool)
		require.Equal(t, []string{all[tool].version, summary(all[tool].file), summary(all[tool].memory)}, row[1:4], tool)
	}
	for tool := range all {
		require.True(t, said[tool], "tracers.md has no row for %s", tool)
	}
}
