package query

import (
	"errors"
	"iter"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/nearest"
)

// ErrNothing means that the specs select no probe.
var ErrNothing = errors.New("no such probe")

// Nearest returns a suggestion to append to the error for specs that select none of the
// names, or "".
func Nearest(specs []spec.Spec, names iter.Seq2[string, string]) string {
	for _, spec := range specs {
		near := nearest.To(spec.Provider + ":" + spec.Probe)
		for provider, probe := range names {
			near.See(provider + ":" + probe)
		}
		if hint := near.Hint(); hint != "" {
			return hint
		}
	}
	return ""
}
