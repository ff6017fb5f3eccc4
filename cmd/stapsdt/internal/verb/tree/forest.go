package tree

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// maxNodes is the maximum number of operations in unfinished trees. If it is exceeded, the
	// oldest tree is dropped.
	maxNodes = 1 << 17
	// maxPerTree is the maximum number of operations in a tree. Further ones are only counted.
	maxPerTree = 10_000
)

// builder builds trees from events.
type builder interface {
	add(*events.Event) error
	know(*recording.Probe)
	// gone removes the trees of a process that has ended.
	gone(*replay.File)
	// report prints why some trees were not built.
	report(*console.Console)
}

// growth has the trees of a builder that are not finished.
type growth struct {
	trees list.List // of *tree, the oldest first
	size  int       // the number of their operations
	lost  uint64    // events
	// givenUp counts trees that were dropped to make room, and dropped counts operations that had
	// no room in trees that are finished.
	givenUp, dropped uint64
	// finished is called with each tree whose root has ended.
	finished func(*tree, pairing.Ended) error
}

// of returns the unfinished trees of a process.
func (g *growth) of(file *replay.File) (all []*tree) {
	for e := g.trees.Front(); e != nil; e = e.Next() {
		if t := e.Value.(*tree); t.root.process == file {
			all = append(all, t)
		}
	}
	return all
}

// node is an operation in a tree.
type node struct {
	name      string
	id        uint64
	at        time.Time     // time of the start
	since     time.Duration // start by CLOCK_MONOTONIC
	took      time.Duration
	ended     bool
	unwound   bool // a call that has ended, after took at the latest: its return was not seen
	failed    bool
	start     *pairing.Operation // nil for a call, which has args instead
	args      []evaluate.Named
	result    []evaluate.Named // arguments of the end, if it has ended
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
	// lost is the number of events that were lost before the root began. When the root has ended,
	// it is the number of events that were lost while it was open.
	lost uint64
	// meets states whether the root meets all conditions. It is Absent unless its start decides
	// that.
	meets events.Truth
	// kept means that the tree is shown later.
	kept bool
	// partial means that the recording has lost events from the time when the root began.
	partial bool
	key     pairing.Key   // key of the root, or nil
	place   *list.Element // in growth.trees
	still   *replay.File  // see Parts.Look, or nil
	// If the operations are calls, calls is their goroutine, and where are the conditions at the
	// start of the root.
	calls goroutine
	where []events.Truth
}

// forest builds trees of operations.
type forest struct {
	operations pairing.Operations
	// spans has the operations that can be parents. The Note of an open operation is its node.
	spans map[pairing.ID]*node
	ends  map[*recording.Probe]shownEnd
	nodes []*node // see all
	// freeNodes and freeTrees are the memory of trees that have ended and are not kept.
	freeNodes []*node
	freeTrees []*tree
	growth
}

// shownEnd has the arguments of an end that are shown. columns are those of its kind when they were
// found: they change if the key of its kind does.
type shownEnd struct {
	columns *pairing.Columns
	args    evaluate.Args
}

func newForest(of pairing.Operations, finished func(*tree, pairing.Ended) error) *forest {
	of.All = true
	return &forest{
		operations: of, spans: map[pairing.ID]*node{}, ends: map[*recording.Probe]shownEnd{},
		growth: growth{finished: finished},
	}
}

func (f *forest) know(p *recording.Probe)    { f.operations.Know(p) }
func (f *forest) report(to *console.Console) { f.operations.Report(to) }

// add adds an event.
func (f *forest) add(event *events.Event) error {
	e := event.Event
	o := f.operations.Add(e, event.File)
	return f.take(&o, e)
}

// take adds an event with its effect on operations.
func (f *forest) take(o *pairing.Outcome, e *recording.Event) error {
	if o.Replaced != nil {
		o.Replaced.Note = nil
	}
	switch {
	case o.Started != nil:
		f.start(o.Started, e)
	case o.HasEnded:
		return f.end(o.Ended, e)
	}
	return nil
}

// nodeOf returns the node of an open operation, or nil.
func nodeOf(o *pairing.Operation) *node {
	n, _ := o.Note.(*node)
	return n
}

// start adds an operation.
func (f *forest) start(o *pairing.Operation, e *recording.Event) {
	n := take(&f.freeNodes)
	*n = node{
		result: n.result[:0], children: n.children[:0], name: o.Kind.Name,
		id: o.Key.ID(), start: o, at: events.At(e), since: o.Since,
		process: o.File, pid: o.PID, tid: o.TID, goroutine: o.Goroutine, parent: o.Parent,
	}
	if parent := f.spans[o.ParentID()]; o.Parent != 0 && parent != nil {
		n.tree = parent.tree
		if n.tree.nodes >= maxPerTree {
			n.tree.dropped++
			return
		}
		parent.children = append(parent.children, n)
	} else {
		n.tree = take(&f.freeTrees)
		*n.tree = tree{
			root: n, lost: f.lost, partial: o.File.Reader != nil && !o.File.Whole(e), key: o.Key,
			meets: events.False,
		}
		if meets, decided := o.Meets(); !decided {
			n.tree.meets = events.Absent
		} else if meets {
			n.tree.meets = events.True
		}
		n.tree.place = f.trees.PushBack(n.tree)
	}
	if n.tree.nodes++; o.Kind.IsSpan() {
		f.spans[o.ID()] = n
	}
	o.Note = n
	if f.size++; f.size > maxNodes {
		f.givenUp++
		f.remove(f.trees.Front().Value.(*tree))
	}
}

// end ends an operation, and its tree if the operation is a root.
func (f *forest) end(ended pairing.Ended, e *recording.Event) error {
	n := nodeOf(ended.Start)
	ended.Start.Note = nil
	if n == nil { // its tree had no room for it, or is finished
		return nil
	}
	n.ended, n.took, n.failed = true, ended.Took, pairing.Failed(e)
	n.tree.failed = n.tree.failed || n.failed
	isRoot := n.tree.root == n
	if !isRoot || f.finished != nil {
		n.result = f.shown(ended.Start, e.Probe).Of(e, n.result)
	}
	if !isRoot {
		return nil
	}
	f.remove(n.tree)
	f.dropped += uint64(n.tree.dropped)
	if f.finished == nil {
		return nil
	}
	var err error
	if !n.process.InPast() {
		err = f.finished(n.tree, ended)
	}
	if !n.tree.kept {
		f.release(n.tree)
	}
	return err
}

// shown returns the arguments of an end that are shown.
func (f *forest) shown(start *pairing.Operation, p *recording.Probe) evaluate.Args {
	known, ok := f.ends[p]
	if !ok || known.columns != start.Columns {
		without := append(start.Kind.KeyArgs(p), "parent", "nanoseconds")
		known = shownEnd{start.Columns, evaluate.NewArgs(p, without...)}
		f.ends[p] = known
	}
	return known.args
}

// release lets further trees take the memory of a tree that was removed, and that of its operations
// that have ended.
func (f *forest) release(t *tree) {
	for _, n := range f.all(t) {
		if n.ended {
			n.start.Reuse()
			f.freeNodes = append(f.freeNodes, n)
		}
	}
	f.freeTrees = append(f.freeTrees, t)
}

// all returns the operations of a tree. They are valid until the next call.
func (f *forest) all(t *tree) []*node {
	f.nodes = append(f.nodes[:0], t.root)
	for i := 0; i < len(f.nodes); i++ {
		f.nodes = append(f.nodes, f.nodes[i].children...)
	}
	return f.nodes
}

// take takes an object from those that are free.
func take[T any](free *[]*T) *T {
	last := len(*free) - 1
	if last < 0 {
		return new(T)
	}
	one := (*free)[last]
	*free = (*free)[:last]
	return one
}

// isOpen reports whether an operation whose end was not seen is known to be open.
func (n *node) isOpen() bool { return cmp.Or(n.tree.still, n.process).Keeps(n.since) }

// arguments returns the arguments of the start.
func (n *node) arguments() []evaluate.Shown {
	if n.start == nil {
		return evaluate.ShowAll(n.args)
	}
	var all []evaluate.Shown
	for i := range n.start.Details {
		all = append(all, evaluate.Show(n.start.Columns.Names[i], &n.start.Details[i]))
	}
	return all
}

// results returns the arguments of the end that the start does not have.
func (n *node) results() []evaluate.Shown {
	args := n.arguments()
	return slices.DeleteFunc(evaluate.ShowAll(n.result), func(one evaluate.Shown) bool {
		same := func(s evaluate.Shown) bool { return s.Name == one.Name && s.Text == one.Text }
		return one.Name == "error" && !n.failed || slices.ContainsFunc(args, same)
	})
}

// remove removes a tree from the unfinished ones. An operation in it that is open, perhaps forever,
// must not keep it in memory.
func (f *forest) remove(t *tree) {
	f.trees.Remove(t.place)
	t.place = nil
	for _, n := range f.all(t) {
		n.start.Note = nil
		if id := n.start.ID(); f.spans[id] == n {
			delete(f.spans, id)
		}
	}
	f.size -= t.nodes
}

// gone removes the operations of a process that has ended.
func (f *forest) gone(file *replay.File) {
	for _, t := range f.of(file) {
		f.remove(t)
	}
	for _, p := range file.Recorded() {
		delete(f.ends, p)
	}
	f.operations.Gone(file)
}

// end returns the end of an operation or, if its own end was not seen, the latest time at which it
// can have been.
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
