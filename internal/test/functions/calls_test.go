//go:build linux && (amd64 || arm64)

package functions

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// flowCalls is how often the program's functions are called by flow.
var flowCalls = map[string]int{"flow": 1, "branch": 1, "leaf": 3, "failing": 1, "down": 0}

func TestCalls(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "calls")
		p.does("flow")
		calls := tracetest.Table(t, tr.Stop(), "calls")
		for function, n := range flowCalls {
			require.Equal(t, n, of(calls, function), "%s: %v", function, calls)
		}
	})
}
