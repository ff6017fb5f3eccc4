package events

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/remote"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// query requests the events of the probes in sent, as far as a filter can name them. The program
// evaluates the condition if it fits all of them and no ends are completed. The program limits the
// number of events per second.
func (p *page) query() url.Values {
	q := url.Values{"rate": {strconv.Itoa(remote.MaxRate)}, "seconds": {strconv.Itoa(remote.MaxSeconds)}}
	one := func(name string, of func(*recording.Probe) string) bool {
		first := of(p.sent[0])
		if slices.ContainsFunc(
			p.sent, func(other *recording.Probe) bool { return of(other) != first },
		) {
			return false
		}
		q.Set(name, first)
		return true
	}
	filter, names := p.config.Where, p.names()
	if p.filtered = filter != "" && len(filter) <= remote.MaxFilter && !p.Pairs() &&
		!slices.ContainsFunc(p.sent, p.refuses); !p.filtered {
		filter = ""
	}
	if one("provider", func(p *recording.Probe) string { return p.Provider }) &&
		one("probe", func(p *recording.Probe) string { return p.Name }) {
		names = ""
	}
	if both := "(" + names + ") && (" + filter + ")"; names != "" && filter != "" &&
		len(both) <= remote.MaxFilter {
		filter = both
	} else if names != "" && len(names) <= remote.MaxFilter {
		filter, p.filtered = names, false
	}
	if filter != "" {
		q.Set("filter", filter)
	}
	return q
}

// names returns a condition that only the probes in sent meet, or "" if an argument hides a
// variable that it needs.
func (p *page) names() string {
	var all []string
	for _, one := range p.sent {
		if slices.ContainsFunc(
			one.Args, func(a recording.Arg) bool { return a.Name == "provider" || a.Name == "probe" },
		) {
			return ""
		}
		all = append(all, fmt.Sprintf("provider == %q && probe == %q", one.Provider, one.Name))
	}
	return strings.Join(all, " || ")
}

// refuses reports whether the program leaves out the events of a probe because the condition uses
// variables that only this command knows.
func (p *page) refuses(one *recording.Probe) bool {
	vars := []expr.Var{{Name: "pid", Type: expr.Type{Kind: expr.Int, Size: 8}}}
	vars = append(vars, evaluate.Variables(one)[:2*len(one.Args)]...)
	_, err := expr.ParseFilter(p.config.Where, vars)
	return err != nil
}
