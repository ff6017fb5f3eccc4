//go:build linux

package engine

import (
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
)

// TestSortGroups: ends come before starts. Functions come one after another unless a program serves several.
func TestSortGroups(t *testing.T) {
	sorted := func(function bool, all ...string) (names []string) {
		var groups []*group
		for _, name := range all {
			g := &group{sharedProgram: &sharedProgram{probe: &bpf.Probe{}}}
			if function {
				g.probe.Function = &bpf.FunctionSite{}
			}
			if strings.HasSuffix(name, "return") || strings.HasSuffix(name, "end") {
				g.order = 1
			}
			for one := range strings.SplitSeq(name, " ") {
				g.sites = append(g.sites, Site{Site: sdt.Site{Name: one}})
			}
			groups = append(groups, g)
		}
		sortGroups(groups)
		for _, g := range groups {
			names = append(names, g.sites[0].Name)
		}
		return names
	}
	assert.Equal(t, []string{"a:return", "a", "b:return", "b"}, sorted(true, "a", "b", "a:return", "b:return"))
	assert.Equal(t, []string{"a:return", "a"}, sorted(true, "a b", "a:return b:return"))
	assert.Equal(t, []string{"a:return", "b:return", "a"}, sorted(true, "a b", "a:return", "b:return"))
	assert.Equal(t, []string{"a_end", "b_end", "a", "b"}, sorted(false, "a", "b", "a_end", "b_end"))
}
