//go:build linux && (amd64 || arm64)

package functions

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/stretchr/testify/require"
)

// BenchmarkCost measures the processor's time of a call of a function: without the probes, with them, and while
// calls.bt counts.
func BenchmarkCost(b *testing.B) {
	library := library(b)
	for _, l := range table {
		if l.bare == "" {
			continue
		}
		for _, state := range []string{"bare", "idle", "traced"} {
			b.Run(l.name+"/"+state, func(b *testing.B) {
				l.needs(b)
				command := l.command
				if state == "bare" {
					command = l.bare
				}
				p := l.start(b, library, command)
				p.does("flow")
				calls := 1_000_000
				if state == "traced" {
					p.traced(b, "calls")
					calls = 50_000
				}
				least := math.Inf(1) // of five times, because other programs run too
				for range 5 {
					p.Say(fmt.Sprintf("bench %d", calls))
					ns, err := strconv.ParseFloat(p.Expect("bench ", testenv.Patience), 64)
					require.NoError(b, err)
					least = min(least, ns)
				}
				b.ReportMetric(least, "ns/call")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
