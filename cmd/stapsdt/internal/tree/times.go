//go:build linux

package tree

import (
	"cmp"
	"slices"
	"time"
)

// end returns when an operation has ended, or what is known of that when its root has ended.
func (n *node) end(root *node) time.Duration {
	if n.ended {
		return n.since + n.took
	}
	return max(n.since, root.since+root.took)
}

// own returns how much of the operation's time none of its children was open.
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
func (t *tree) walk(f func(n *node, depth int, last bool)) {
	type step struct {
		n     *node
		depth int
		last  bool
	}
	// A hostile program makes a tree as deep as it likes: this needs no recursion.
	stack := []step{{t.root, 0, true}}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		f(s.n, s.depth, s.last)
		for i := len(s.n.children) - 1; i >= 0; i-- {
			stack = append(stack, step{s.n.children[i], s.depth + 1, i == len(s.n.children)-1})
		}
	}
}
