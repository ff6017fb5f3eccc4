//go:build linux

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestExpressionNames: the help names the variables that every event has, and those that recordings and pages lack.
func TestExpressionNames(t *testing.T) {
	_, table, _ := strings.Cut(expressionsHelp, "arg1 and so on, and:\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var names []string
	for _, row := range regexp.MustCompile(`(?m)^  ([a-z, ]*[a-z])  `).FindAllStringSubmatch(table, -1) {
		names = append(names, strings.Split(row[1], ", ")...)
	}
	recorded := evaluate.NewEvaluator(&recording.Probe{})
	page := evaluate.NewEvaluator(&recording.Probe{NoThread: true, NoGoroutine: true})
	var unrecorded, unsent []string
	for _, name := range names {
		switch _, err := (&bpf.Probe{}).Parse(name); {
		case name == "failed": // only functions have it
		case !recorded.Has(name):
			require.NoError(t, err)
			unrecorded = append(unrecorded, name)
		case !page.Has(name):
			unsent = append(unsent, name)
		}
	}
	for _, v := range evaluate.Variables(&recording.Probe{}) {
		require.Contains(t, names, v.Name)
	}
	lacks := regexp.MustCompile(`(?s)They have no (.*) and (.*), no str.*At an address there is neither (.*) nor (.*)\.\n\n`).FindStringSubmatch(expressionsHelp)
	require.Len(t, lacks, 5)
	require.ElementsMatch(t, append(strings.Split(lacks[1], ", "), lacks[2]), unrecorded)
	require.ElementsMatch(t, lacks[3:], unsent)
}
