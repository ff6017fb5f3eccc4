package tree

import (
	"bytes"
	"strings"
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Parts keeps the operations within each open operation. Its methods may be called
// concurrently.
type Parts struct {
	mu     sync.Mutex
	forest *forest
}

// NewParts returns a Parts without operations.
func NewParts() *Parts { return &Parts{forest: newForest(nil, nil)} }

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

// Lines formats an operation and the operations within it, or returns nil if it has ended or
// has none.
func (p *Parts) Lines(o *pairing.Operation, width int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := nodeOf(o)
	if n == nil || len(n.children) == 0 {
		return nil
	}
	n.took = max(n.process.Last()-n.since, 0)
	var b bytes.Buffer
	w := writer{width: width}
	w.operations(&b, n)
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}
