package pairing

import (
	"iter"
	"maps"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// Table holds operations that have started and not ended, at most query.MaxOpen. A key pairs a
// start with its end.
type Table[K comparable, O any] struct {
	// Full counts the starts for which there was no room.
	Full uint64
	open map[K]O
}

// Start adds an operation, and reports whether there was room. One with the same key makes room: it
// can no longer end.
func (t *Table[K, O]) Start(key K, o O) bool {
	if len(t.open) >= query.MaxOpen {
		if _, again := t.open[key]; !again {
			t.Full++
			return false
		}
	}
	if t.open == nil {
		t.open = map[K]O{}
	}
	t.open[key] = o
	return true
}

// Get returns the open operation with a key, or the zero value.
func (t *Table[K, O]) Get(key K) O { return t.open[key] }

// End removes the operation with a key.
func (t *Table[K, O]) End(key K) { delete(t.open, key) }

// Len returns the number of open operations.
func (t *Table[K, O]) Len() int { return len(t.open) }

// All returns all open operations, which End may remove meanwhile.
func (t *Table[K, O]) All() iter.Seq2[K, O] { return maps.All(t.open) }

// WarnUnknown warns of the events for which it is unknown who has fired them, if there are any.
func WarnUnknown(to *console.Console, events uint64, key []string) {
	if events > 0 {
		to.Warn("%d events are not included, because it is unknown which %s has fired them", events,
			query.Firer(key))
	}
}

// WarnEarly warns of the ends that are left out because their starts were not seen, if there are
// any.
func WarnEarly(to *console.Console, ends uint64) {
	if ends > 0 {
		to.Warn("not included: %s that began earlier, or whose start was lost", render.Number(ends, "operation"))
	}
}

// WarnFull warns of the starts for which there was no room, if there are any.
func WarnFull(to *console.Console, starts uint64) {
	if starts > 0 {
		to.Warn("%d starts are not included, because more than %d operations were open", starts,
			query.MaxOpen)
	}
}
