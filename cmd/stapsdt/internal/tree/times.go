//go:build linux

package tree

import (
	"cmp"
	"slices"
	"time"
)

// end returns the end of an operation or, if its own end was not seen, the latest time at which it can have been.
func (n *node) end(root *node) time.Duration {
	if n.ended || n.unwound {
		return n.since + n.took
	}
	return max(n.since, root.since+root.took)
}

// own returns the part of the operation's time in which none of its children was open.
func (n *node) own(root *node) time.Duration {
	first, last := n.since, n.end(root)
	children := slices.Clone(n.children)
	slices.SortStableFunc(children, func(a, b *node) int { return cmp.Compare(a.since, b.since) })
	own, at := time.Duration(0), first
	for _, c := range children {
		if c.since > at {
			own += min(c.since, last) - min(at, last)
		}
		at = max(at, c.end(root))
	}
	return own + last - min(at, last)
}

// walk calls f with each operation of a tree and its depth, each before its children.
func (t *tree) walk(f func(n *node, depth int)) {
	type step struct {
		n     *node
		depth int
	}
	// No recursion: a hostile program can make a tree of any depth.
	stack := []step{{t.root, 0}}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		f(s.n, s.depth)
		for i := len(s.n.children) - 1; i >= 0; i-- {
			stack = append(stack, step{s.n.children[i], s.depth + 1})
		}
	}
}
