//go:build linux

package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	r := results{"odd": {9, 1, 5}, "even": {4, 1, 2, 100}, "half": {18, 1, 5}}
	require.Equal(t, 5.0, r.median("odd"))
	require.Equal(t, 3.0, r.median("even"))
	require.Equal(t, 1.0, r.ratio("half", "odd"), "the median of 2, 1 and 1")
	require.Equal(t, 0.0, r.difference("half", "odd"))
	require.Panics(t, func() { r.median("none") })
	require.Panics(t, func() { r.ratio("odd", "even") })
}

func TestReport(t *testing.T) {
	var out strings.Builder
	require.True(t, report(&out, []target{{"small", 1, "ns", 1}}))
	require.Contains(t, out.String(), "ok      small")
	require.False(t, report(&out, []target{{"large", 1, "ns", 1.01}, {"small", 1, "ns", 1}}))
	require.Contains(t, out.String(), "FAILED  large")
	require.False(t, report(&out, []target{{"none", 1, "ns", math.NaN()}}))
}

func TestReplaceInFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	const other = "<!-- cost of others -->\nanother table\n<!-- /cost -->\n\n"
	const before, after = "# Title\n\n" + other + "<!-- cost of ours -->\n", "<!-- /cost -->\n\n" + other + "More.\n"
	for _, old := range []string{"", "an older table\n"} {
		require.NoError(t, os.WriteFile(path, []byte(before+old+after), 0o600))
		require.NoError(t, replaceInFile(path, "cost", "ours", "| table |\n"))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before+"| table |\n"+after, string(got))
	}
	for _, content := range []string{"", before, after, "text <!-- cost of ours -->\n" + after} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		require.Error(t, replaceInFile(path, "cost", "ours", "table"), "%q", content)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(got), "a file without the marks stays as it is")
	}
}

// TestEveryTargetIsMeasured: no target asks for a figure that no case has.
func TestEveryTargetIsMeasured(t *testing.T) {
	r := results{addedStripped: {1}, addedUnstripped: {1}, addedLoaded: {1}, addedNames: {1}, addedInit: {0}, addedInitAllocs: {0}}
	for _, list := range [][]measurement{idleCases(), insideCases(), outsideCases(), tracedCases(), loadCases(), largeCases()} {
		for _, m := range list {
			require.False(t, r.has(m.key()), "%s is measured twice", m.key())
			r[m.key()] = []float64{1}
		}
	}
	require.Greater(t, len(r.targets()), 60)
	text := markdown(r, "machine")
	for _, l := range insideLines {
		require.Contains(t, text, "| "+l.what+" | 1 ns | 1.00 |")
	}
	for _, l := range outsideLines() {
		require.Contains(t, text, "| "+l.what+" | 1.00 ns | 1.00 |")
	}
	for _, l := range loadLines {
		require.Contains(t, text, "| "+l.what+" |")
		require.True(t, l.row == "" || r.has(pureGo+" "+l.row) && r.has(withCgo+" "+l.row), l.what)
		require.True(t, l.c == "" || r.has(chosen()+" "+l.c), l.what)
	}
	for _, l := range eventLines() {
		require.True(t, r.has(l.subject+" idle "+l.row), l.what)
	}
}
