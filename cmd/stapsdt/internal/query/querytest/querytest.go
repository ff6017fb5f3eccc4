// Package querytest has what tests ask of events.
package querytest

import (
	"math"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// Buckets has some of each kind.
var Buckets = []query.Buckets{
	query.Powers{},
	query.Linear{Low: -10, High: 100, Step: 7},
	query.Linear{High: 1 << 40, Step: 1 << 33},
	query.Linear{Low: math.MinInt64, High: math.MaxInt64, Step: 1 << 60},
}
