package function

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/gotable"
	"github.com/go-stapsdt/stapsdt/internal/nearest"
)

// NoneError is the error that no function matches a pattern.
type NoneError struct {
	Pattern Pattern
	// Inlined is the number of functions that are known to have inlined a matching function, and Callers are
	// some of them.
	Inlined int
	Callers []string
	// Nearest are the most similar names.
	Nearest []string
}

func (e *NoneError) Error() string {
	if e.Inlined > 0 {
		text := fmt.Sprintf("%s cannot be probed: the compiler has inlined all calls of it, in %s at least: ", e.Pattern, plural(e.Inlined, "function"))
		return text + enumerate(e.Callers, e.Inlined)
	}
	text := fmt.Sprintf("there is no function %s", e.Pattern)
	if e.Pattern.IsGlob() {
		text = fmt.Sprintf("no function matches %s", e.Pattern)
	}
	text += ", unless all calls of it are inlined or the linker has dropped it"
	if len(e.Nearest) > 0 {
		text += "; there is " + strings.Join(e.Nearest, ", ")
	}
	return text
}

// enumerate lists some of n names.
func enumerate(names []string, n int) string {
	text := strings.Join(names, ", ")
	if n > len(names) {
		text += fmt.Sprintf(" and %d more", n-len(names))
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// maxNamed is the maximum number of names that an error lists.
const maxNamed = 5

// none returns the error for a pattern that no function matches.
func (p *Program) none(pattern Pattern, inlined map[string]map[string]bool) error {
	e := &NoneError{Pattern: pattern}
	for _, callee := range slices.Sorted(maps.Keys(inlined)) {
		if callers := inlined[callee]; len(callers) > e.Inlined {
			e.Inlined = len(callers)
			e.Callers = slices.Sorted(maps.Keys(callers))
		}
	}
	if e.Callers = e.Callers[:min(len(e.Callers), maxNamed)]; e.Inlined == 0 {
		e.Nearest = p.nearest(pattern)
	}
	return e
}

// nearest returns the names whose last part is most similar to the last part of a pattern. Names in its package come first.
func (p *Program) nearest(pattern Pattern) (names []string) {
	last := lastPart(strings.NewReplacer("(*", "(*", "*", "", "?", "").Replace(string(pattern)))
	if last == "" || len(last) > maxName {
		return nil
	}
	type candidate struct {
		name             string
		distance, common int
	}
	var all []candidate
	most := 1 + len(last)/4
	p.functions(func(f gotable.Function) bool {
		part := lastPart(f.Name)
		n := most + 1
		switch {
		case f.Wrapper:
		case len(part) <= len(last)+most && len(part)+most >= len(last):
			n = nearest.Distance(last, part)
		case pattern.IsGlob() && strings.Contains(part, last):
			n = most
		}
		if n <= most {
			all = append(all, candidate{f.Name, n, common(string(pattern), f.Name)})
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(b.common, a.common))
	})
	for _, c := range all[:min(len(all), maxNamed)] {
		names = append(names, c.name)
	}
	return names
}

// lastPart returns the last part of a name in lower case, without type arguments.
func lastPart(name string) string {
	if i := strings.IndexByte(name, '['); i >= 0 {
		name = name[:i]
	}
	return strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
}

// common returns the length of the longest common prefix of two names.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
