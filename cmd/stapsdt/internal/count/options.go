//go:build linux

package count

import (
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
)

// Options say what is counted, and how it is shown.
type Options struct {
	Expressions
	// JSON selects the output for programs.
	JSON bool
	// Limit is the maximum number of rows of the output for people, or 0 for all.
	Limit int
	// Interval is the time between two reports, or 0 for only one at the end.
	Interval time.Duration
	// From are the recordings whose events are counted, instead of those of processes.
	From []string
}

// CheckLimit returns an error if a number of rows is not valid.
func CheckLimit(limit int) error {
	if limit < 0 {
		return usage.Errorf("-n %d is negative", limit)
	}
	return nil
}

// most returns the rows that are shown, and a line about the others.
func most[S Subject](rows []*Row[S], limit int) (shown []*Row[S], others string) {
	if limit == 0 || len(rows) <= limit {
		return rows, ""
	}
	n := uint64(0)
	for _, r := range rows[limit:] {
		n += r.Count
	}
	return rows[:limit], fmt.Sprintf("and %s in %s (-n 0 shows all)\n", render.Number(n, "event"), render.Number(len(rows)-limit, "other row"))
}
