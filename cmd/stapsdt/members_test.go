//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/schematest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// memberTable returns the table of members in Markdown. Members share a row if nothing but their names is different.
func memberTable(s *schematest.Schema) string {
	type key struct{ name, of, doc string }
	verbs := map[key][]string{}
	for _, m := range s.Members() {
		meaning, _, isUnclear := strings.Cut(m.Doc, "; ")
		if !isUnclear {
			meaning = "" // the name tells it
		}
		k := key{m.Name, m.Type, meaning}
		verbs[k] = append(verbs[k], m.Verbs...)
	}
	rows := map[string][]string{} // the names, by the other cells
	for k, all := range verbs {
		slices.Sort(all)
		cells := strings.ReplaceAll(fmt.Sprintf("%s | %s | %s", k.of, k.doc, strings.Join(slices.Compact(all), ", ")), "|  |", "| |")
		rows[cells] = append(rows[cells], k.name)
	}
	var lines []string
	for cells, names := range rows {
		slices.Sort(names)
		lines = append(lines, fmt.Sprintf("| `%s` | %s |\n", strings.Join(names, "`, `"), cells))
	}
	slices.Sort(lines)
	return "| member | type | meaning | verbs |\n|---|---|---|---|\n" + strings.Join(lines, "")
}

// TestMembers: the guide has the table of the members of the schema, and all verbs that print JSON are in the schema.
func TestMembers(t *testing.T) {
	s, err := objectSchema()
	require.NoError(t, err)
	_, section, found := strings.Cut(read(t, "../../docs/command.md"), "\n## JSON\n")
	require.True(t, found, "docs/command.md has no such section")
	section, _, _ = strings.Cut(section, "\n## ")
	var verbs, described []string
	for _, c := range rootCommand(&console.Console{}).Commands() {
		if complete, ok := c.GetFlagCompletionFunc("output"); ok {
			if words, _ := complete(c, nil, ""); slices.Contains(words, query.JSON.Word()) {
				verbs = append(verbs, c.Name())
			}
		}
	}
	for _, m := range s.Members() {
		described = append(described, m.Verbs...)
	}
	slices.Sort(described)
	require.ElementsMatch(t, verbs, slices.Compact(described))
	want := memberTable(s)
	assert.Contains(t, strings.Join(strings.Fields(section), " "), valueDoc)
	require.Contains(t, section, want, "docs/command.md should have this table:\n%s", want)
}
