package query

import (
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Elapsed is the type of an operation's duration.
var Elapsed = expr.Type{Kind: expr.Int, Size: 8, Unit: kind.Nanoseconds}

// Totals counts the operations of a kind.
type Totals struct {
	// Starts counts the starts, and Pairs the starts whose end was seen.
	Starts, Pairs uint64
	// Ends counts the ends without a start.
	Ends uint64
	// Full counts the starts for which there was no room.
	Full uint64
}

// Add adds the operations of another kind.
func (t *Totals) Add(other Totals) {
	t.Starts += other.Starts
	t.Pairs += other.Pairs
	t.Ends += other.Ends
	t.Full += other.Full
}
