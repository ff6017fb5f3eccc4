// Package querytest has what tests ask of events.
package querytest

import (
	"math"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// Buckets has some of each kind.
var Buckets = []query.Buckets{
	query.Powers{},
	query.Linear{Low: -10, High: 100, Step: 7},
	query.Linear{High: 1 << 40, Step: 1 << 33},
	query.Linear{Low: math.MinInt64, High: math.MaxInt64, Step: 1 << 60},
}

// Spec parses a valid spec, and Specs several.
func Spec(text string) spec.Spec { return Specs(text)[0].Spec }

func Specs(texts ...string) []spec.Choice {
	specs, err := spec.ParseChoices(texts)
	if err != nil {
		panic(err)
	}
	return specs
}
