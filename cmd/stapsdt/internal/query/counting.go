package query

import "github.com/go-stapsdt/stapsdt/internal/expr"

// Counting defines what is counted of events, and what is kept.
type Counting struct {
	Where string // a condition, or ""
	By    []string
	// Value is an expression whose values are summed, or "" to only count events. For names the
	// use of the value in errors, such as "a sum".
	Value, For string
	// Rises means that an event with a negative value cannot be evaluated.
	Rises bool
	// Latest also keeps the latest value.
	Latest bool
	// Buckets are the buckets of a histogram with a row for each bucket. Bounds returns the
	// buckets of a histogram in one row, for the type of the value. Either is nil.
	Buckets Buckets
	Bounds  func(expr.Type) (*Bounds, error)
	// ID is an expression for the ID of a span, which a histogram in a row keeps with its
	// latest event, or "".
	ID string
}
