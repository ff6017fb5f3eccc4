package pairing

import "slices"

// Nest orders operations so that each follows the operation that it is a part of, and returns their
// nesting depths.
func Nest(all []*Operation) (nested []*Operation, depths []int) {
	spans := map[ID]*Operation{}
	for _, o := range all {
		if o.Kind.IsSpan() {
			spans[o.ID()] = o
		}
	}
	// parts are keyed by the operation that contains them, or nil.
	parts := map[*Operation][]*Operation{}
	for _, o := range all {
		var whole *Operation
		if o.Parent != 0 {
			whole = spans[o.ParentID()]
		}
		parts[whole] = append(parts[whole], o)
	}
	type step struct {
		o     *Operation
		depth int
	}
	seen := map[*Operation]bool{}
	// A hostile program can make operations that are parts of each other, and nest them at any
	// depth.
	for _, root := range slices.Concat(parts[nil], all) {
		for stack := []step{{root, 0}}; len(stack) > 0; {
			s := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[s.o] {
				continue
			}
			seen[s.o] = true
			nested, depths = append(nested, s.o), append(depths, s.depth)
			for _, part := range slices.Backward(parts[s.o]) {
				stack = append(stack, step{part, s.depth + 1})
			}
		}
	}
	return nested, depths
}
