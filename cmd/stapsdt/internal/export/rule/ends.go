//go:build linux

package rule

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/operations"
)

// Ends give the probes of a rule what its expressions use of the starts.
type Ends struct {
	*operations.Ends
	engine.Subscriber
}

// NeedStarts sets b.Ends, if expressions use something of a start. Its Section then takes the place
// of that of a subscriber.
func (b *Base) NeedStarts(s engine.Subscriber, exprs ...string) {
	of := operations.NewEnds(exprs, nil, true)
	if of == nil {
		return
	}
	b.Selection.Selector.Starts = of.Needs
	b.Ends = &Ends{of, of.Subscriber(s, b.Selection.Selector, b.Env)}
}
