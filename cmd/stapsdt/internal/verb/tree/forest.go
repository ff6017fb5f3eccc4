package tree

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// maxNodes is the maximum number of operations in unfinished trees. If it is exceeded, the oldest tree is
	// dropped.
	maxNodes = 1 << 17
	// maxPerTree is the maximum number of operations in a tree. Further ones are only counted.
	maxPerTree = 10_000
)

// builder builds trees from events.
type builder interface {
	add(*events.Event) error
	know(*recording.Probe)
	// forget removes the trees of a process that has ended.
	gone(*replay.File)
	// report prints why some trees were not built.
	report(*console.Console)
}

// growth has the trees of a builder that are not finished.
type growth struct {
	trees list.List // of *tree, the oldest first
	size  int       // the number of their operations
	lost  uint64    // events
	// givenUp counts trees that were dropped to make room, and dropped counts operations that had no room in trees that
	// are finished.
	givenUp, dropped uint64
	// finished is called with each tree whose root has ended.
	finished func(*tree, replay.Ended) error
}

// node is an operation in a tree.
type node struct {
	name      string
	id        uint64
	at        time.Time     // time of the start
	since     time.Duration // start by CLOCK_MONOTONIC
	took      time.Duration
	ended     bool
	unwound   bool // a call that has ended although its return was not seen, after took at the latest
	failed    bool
	start     *replay.Operation // nil for a call, which has args instead
	args      []replay.Named
	result    []replay.Named // arguments of the end
	process   *replay.File
	pid, tid  uint32
	goroutine uint64
	parent    uint64 // its ID, or 0
	children  []*node
	tree      *tree
}

// tree is a root operation with its descendants.
type tree struct {
	root *node
	// nodes counts the operations, and dropped counts the operations for which there was no room.
	nodes, dropped int
	failed         bool // an operation has failed
	// lost is the number of events that were lost before the root began. When the root has ended, it is the number of events
	// that were lost while it was open.
	lost uint64
	// meets states whether the root meets all conditions. It is Absent unless its start decides
	// that.
	meets events.Truth
	// partial means that the recording has lost events from the time when the root began.
	partial bool
	key     replay.Value // key of the root
	keys    []key
	place   *list.Element // in growth.trees
	calls   *callStack    // of its goroutine, if the operations are calls
}

// key identifies an operation: the ID of a span is unique in its process, and any other ID within its kind.
type key struct {
	file *replay.File
	pid  uint32
	kind string // "" for a span
	id   uint64
	text string
}

// forest builds trees of operations.
type forest struct {
	operations replay.Operations
	nodes      map[key]*node
	open       map[*replay.Operation]*node
	ends       replay.Arguments
	growth
}

func newForest(where []string, finished func(*tree, replay.Ended) error) *forest {
	return &forest{
		operations: replay.Operations{Where: where, All: true},
		nodes:      map[key]*node{}, open: map[*replay.Operation]*node{},
		ends: replay.Arguments{}, growth: growth{finished: finished},
	}
}

func (f *forest) know(p *recording.Probe)    { f.operations.Know(p) }
func (f *forest) report(to *console.Console) { f.operations.Report(to) }

// add adds an event.
func (f *forest) add(event *events.Event) error {
	e := event.Event
	kind, o := f.operations.Add(e, event.File)
	return f.take(kind, &o, e)
}

// take adds an event with its effect on operations.
func (f *forest) take(kind *replay.Kind, o *replay.Outcome, e *recording.Event) error {
	delete(f.open, o.Replaced)
	switch {
	case kind == nil:
		return nil
	case o.Started != nil:
		f.start(kind, o.Started, e)
	case o.HasEnded:
		return f.end(o.Ended, e)
	}
	return nil
}

// keyOf returns the key of an operation.
func keyOf(kind *replay.Kind, o *replay.Operation) key {
	k := key{file: o.File, pid: o.PID, id: o.Key.Bits, text: o.Key.Text}
	if !kind.IsSpan() {
		k.kind = kind.Name
	}
	return k
}

// start adds an operation.
func (f *forest) start(kind *replay.Kind, o *replay.Operation, e *recording.Event) {
	n := &node{
		name: kind.Name, id: o.Key.Bits, start: o, at: events.At(e), since: o.Since,
		process: o.File, pid: o.PID, tid: o.TID, goroutine: o.Goroutine, parent: o.Parent,
	}
	parent := f.nodes[key{file: o.File, pid: o.PID, id: o.Parent}]
	if o.Parent != 0 && parent != nil {
		n.tree = parent.tree
		if n.tree.nodes >= maxPerTree {
			n.tree.dropped++
			return
		}
		parent.children = append(parent.children, n)
	} else {
		n.tree = &tree{
			root: n, lost: f.lost, partial: o.File.Reader != nil && !o.File.Whole(e), key: o.Key,
			meets: events.False,
		}
		if meets, decided := o.Meets(); kind.Fits && !decided {
			n.tree.meets = events.Absent
		} else if kind.Fits && meets {
			n.tree.meets = events.True
		}
		n.tree.place = f.trees.PushBack(n.tree)
	}
	at := keyOf(kind, o)
	n.tree.nodes++
	n.tree.keys = append(n.tree.keys, at)
	f.nodes[at], f.open[o] = n, n
	if f.size++; f.size > maxNodes {
		f.givenUp++
		f.remove(f.trees.Front().Value.(*tree))
	}
}

// end ends an operation, and its tree if the operation is a root.
func (f *forest) end(ended replay.Ended, e *recording.Event) error {
	n := f.open[ended.Start]
	delete(f.open, ended.Start)
	if n == nil || n.tree.place == nil { // its tree had no room for it, or is finished
		return nil
	}
	n.ended, n.took, n.failed = true, ended.Took, replay.Failed(e)
	n.tree.failed = n.tree.failed || n.failed
	isRoot := n.tree.root == n
	if !isRoot || f.finished != nil {
		all := f.ends.Of(e, "parent", "nanoseconds")
		n.result = all[min(1, len(all)):] // the first is the ID
	}
	if !isRoot {
		return nil
	}
	f.remove(n.tree)
	f.dropped += uint64(n.tree.dropped)
	if f.finished == nil {
		return nil
	}
	return f.finished(n.tree, ended)
}

// isOpen reports whether an operation whose end was not seen is known to be open.
func (n *node) isOpen() bool { return n.process.Keeps(n.since) }

// arguments returns the arguments of the start.
func (n *node) arguments() []replay.Shown {
	if n.start == nil {
		return replay.ShowAll(n.args)
	}
	var all []replay.Shown
	for i := range n.start.Details {
		all = append(all, replay.Show(n.start.Columns.Names[i], &n.start.Details[i]))
	}
	return all
}

// results returns the arguments of the end that the start does not have.
func (n *node) results() []replay.Shown {
	args := n.arguments()
	return slices.DeleteFunc(replay.ShowAll(n.result), func(one replay.Shown) bool {
		return one.Name == "error" && !n.failed || slices.ContainsFunc(args, func(s replay.Shown) bool {
			return s.Name == one.Name && s.Text == one.Text
		})
	})
}

// remove removes a tree from the unfinished ones.
func (f *forest) remove(t *tree) {
	f.trees.Remove(t.place)
	t.place = nil
	for _, k := range t.keys {
		if n := f.nodes[k]; n != nil && n.tree == t {
			delete(f.nodes, k)
		}
	}
	f.size -= len(t.keys)
	t.keys = nil
}

// gone removes the operations of a process that has ended, and returns the number of its trees.
func (f *forest) gone(file *replay.File) {
	for e := f.trees.Front(); e != nil; {
		t := e.Value.(*tree)
		e = e.Next()
		if t.root.process == file {
			f.remove(t)
		}
	}
	for o := range f.open {
		if o.File == file {
			delete(f.open, o)
		}
	}
	f.operations.Gone(file)
}

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

// walk calls f with an operation and those that it consists of, with their depths, each before its
// children.
func (n *node) walk(f func(n *node, depth int)) {
	type step struct {
		n     *node
		depth int
	}
	// No recursion: a hostile program can make a tree of any depth.
	stack := []step{{n, 0}}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		f(s.n, s.depth)
		for i := len(s.n.children) - 1; i >= 0; i-- {
			stack = append(stack, step{s.n.children[i], s.depth + 1})
		}
	}
}
