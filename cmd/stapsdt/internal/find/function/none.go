//go:build linux

package function

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/internal/nearest"
)

// ErrInlined means that a function has no code of its own.
var ErrInlined = errors.New("the compiler has inlined all calls of it")

// ErrMany means that a pattern matches more functions than can be selected.
var ErrMany = errors.New("too many functions")

// maxNamed is the maximum number of names that an error lists.
const maxNamed = 5

// none returns the error for a pattern that no function matches. inlined has the functions that
// have inlined others, by the names of the latter.
func (p *Program) none(pattern spec.Pattern, inlined map[uint32][]uint32) error {
	var callee string // the one that is inlined most
	var callers []uint32
	for at, by := range inlined {
		name := p.table.Name(at)
		if n := len(by) - len(callers); n > 0 || n == 0 && name < callee {
			callee, callers = name, by
		}
	}
	if n := len(callers); n > 0 {
		var names []string
		for _, at := range callers {
			names = append(names, p.table.Name(at))
		}
		slices.Sort(names)
		functions := "1 function"
		if n > 1 {
			functions = fmt.Sprintf("%d functions", n)
		}
		return fmt.Errorf("%s cannot be probed: %w, in %s at least: %s", pattern, ErrInlined,
			functions, text.Some(names, maxNamed))
	}
	message := fmt.Sprintf("there is no function %s", pattern)
	if pattern.IsGlob() {
		message = fmt.Sprintf("no function matches %s", pattern)
	}
	message += ", unless all calls of it are inlined or the linker has dropped it"
	if near := p.nearest(pattern); len(near) > 0 {
		message += "; there is " + strings.Join(near, ", ")
	}
	return errors.New(message)
}

// nearest returns the names whose last part is most similar to the last part of a pattern. Names in
// its package come first.
func (p *Program) nearest(pattern spec.Pattern) (names []string) {
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
	// Without an error, there would be other names.
	_ = p.table.Functions(p.release, nil, func(f gotable.Function) bool {
		part := lastPart(f.Name)
		n := most + 1
		switch {
		case f.Wrapper || strings.HasPrefix(f.Name, "type:"): // those of the compiler are of no use
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
func lastPart(name string) string { return strings.ToLower(lastName(name)) }

// common returns the length of the longest common prefix of two names.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
