package tree

import (
	"bytes"
	"strings"
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Parts keeps the operations within each open operation. Lines may be called concurrently with the
// other methods, which are for the goroutine that reads the events.
type Parts struct {
	mu     sync.Mutex
	forest *forest
}

// NewParts returns a Parts without operations.
func NewParts() *Parts { return &Parts{forest: newForest(pairing.Operations{}, nil)} }

// Add adds an event with its effect on operations.
func (p *Parts) Add(o *pairing.Outcome, e *recording.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.forest.take(o, e) // it finishes no tree, and only that can fail
}

// Gone removes the operations of a process that has ended.
func (p *Parts) Gone(f *replay.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forest.gone(f)
}

// Look notes until when events were read, and which are missing, for Lines: the files change
// meanwhile.
func (p *Parts) Look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	still := map[*replay.File]*replay.File{}
	for e := p.forest.trees.Front(); e != nil; e = e.Next() {
		t := e.Value.(*tree)
		f := t.root.process
		if still[f] == nil {
			still[f] = f.Still()
		}
		t.still = still[f]
	}
}

// Lines formats an operation and the operations within it, as of the last Look. It returns nil if
// the operation has ended, has none, or began later.
func (p *Parts) Lines(o *pairing.Operation, width int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.look(o)
	if n == nil {
		return nil
	}
	var b bytes.Buffer
	w := writer{width: width}
	w.operations(&b, n)
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// JSON describes an operation and the operations within it, as of the last Look. It returns nil
// when Lines does.
func (p *Parts) JSON(o *pairing.Operation) *JSONParts {
	p.mu.Lock()
	defer p.mu.Unlock()
	root := p.look(o)
	if root == nil {
		return nil
	}
	j := &JSONParts{
		Time: root.at.UTC(), Operation: root.name, Nanoseconds: root.took,
		Dropped: root.tree.dropped, Partial: root.tree.partial,
	}
	root.walk(func(n *node, depth int) {
		j.Failed = j.Failed || n.failed
		j.Operations = append(j.Operations, n.json(root, depth))
	})
	return j
}

// look returns the node of an operation that has others within it, with its time until the last
// Look, or nil.
func (p *Parts) look(o *pairing.Operation) *node {
	n := nodeOf(o)
	if n == nil || len(n.children) == 0 || n.tree.still == nil {
		return nil
	}
	n.took = max(n.tree.still.Last()-n.since, 0)
	return n
}
