//go:build linux

package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// sortGroups sorts groups in the order in which they are attached to. The first spec of a pair
// selects the starts. They come last: an operation that starts before its end is attached to would
// stay open. If each group has the sites of one function only, as with a budget, one function comes
// after another: otherwise the budget would detach from the returns of many functions before any of
// their calls was seen.
func sortGroups(groups []*group) {
	slices.SortStableFunc(groups, func(x, y *group) int { return y.order - x.order })
	places := map[string]int{}
	for _, g := range groups {
		name := g.function()
		if name == "" {
			return
		}
		if _, known := places[name]; !known {
			places[name] = len(places)
		}
	}
	slices.SortStableFunc(groups, func(x, y *group) int {
		return cmp.Compare(places[x.function()], places[y.function()])
	})
}

// function returns the name of the function whose calls or returns the sites are, or "" if there
// are several, or none.
func (g *group) function() (name string) {
	for i := range g.sites {
		s := &g.sites[i]
		of := strings.TrimSuffix(s.Name, spec.ReturnSuffix)
		if g.probe.Function == nil || i > 0 && of != name {
			return ""
		}
		name = of
	}
	return name
}
