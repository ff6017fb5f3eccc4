package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Choice is a spec with an alternative, if it has one: the end of an operation is __end or __done.
type Choice struct {
	Spec
	Other Spec // zero if there is none
}

// ParseChoices parses specs without alternatives.
func ParseChoices(specs []string) (all []Choice, err error) {
	for _, text := range specs {
		one, err := Parse(text)
		if err == nil {
			err = one.CheckOne()
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Choice{Spec: one})
	}
	return all, nil
}

// All returns the specs, and after them the alternatives.
func All(choices []Choice) []Spec {
	var all, others []Spec
	for _, c := range choices {
		if all = append(all, c.Spec); !c.Other.IsZero() {
			others = append(others, c.Other)
		}
	}
	slices.SortFunc(others, func(a, b Spec) int { return strings.Compare(a.text, b.text) })
	return append(all, slices.Compact(others)...)
}

// Join joins the texts of specs.
func Join[S fmt.Stringer](specs []S, separator string) string {
	var texts []string
	for _, s := range specs {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, separator)
}

// Match reports whether the spec or its alternative matches a probe.
func (c *Choice) Match(provider, probe string) bool {
	return c.Spec.Match(provider, probe) || !c.Other.IsZero() && c.Other.Match(provider, probe)
}

// MatchProvider is Spec.MatchProvider for both alternatives.
func (c *Choice) MatchProvider(provider string) bool {
	return c.Spec.MatchProvider(provider) || !c.Other.IsZero() && c.Other.MatchProvider(provider)
}

// IsStart reports whether a probe is the start of an operation, and not the end.
func IsStart(start, end *Choice, provider, probe string) (bool, error) {
	isStart := start.Match(provider, probe)
	if isStart && end.Match(provider, probe) {
		return false, fmt.Errorf("both %v and %v name it", start, end)
	}
	return isStart, nil
}
