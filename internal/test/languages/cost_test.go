//go:build linux && (amd64 || arm64)

package languages

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// BenchmarkCost measures a call of a function that does nothing, of is-enabled, and of fire with a
// text and an integer: without a tracer, and while bpftrace counts.
func BenchmarkCost(b *testing.B) {
	bindings := build(b)
	for _, l := range table {
		b.Run(l.name, func(b *testing.B) {
			binding := bindings + "/" + l.name
			l.prepare(b, binding)
			s := start(b, binding, strings.NewReplacer("check.", "bench.", "Check", "Bench").Replace(l.command))
			s.Expect("ready", testenv.Patience)
			for _, state := range []string{"empty", "enabled", "fire"} {
				b.Run(state, func(b *testing.B) { s.measure(b, state) })
			}
			tracer := tracetest.Bpftrace(b, `usdt:*:languages:bench { @ = count(); }`, "-p", strconv.Itoa(s.PID()))
			b.Run("traced", func(b *testing.B) { s.measure(b, "fire") })
			require.Contains(b, tracer.Stop(), "@: ")
		})
	}
}

// measure reports the least time of a call in ten runs, because other programs run too, and
// because some languages compile a function when it has run for a while.
func (s *subject) measure(b *testing.B, name string) {
	least := math.Inf(1)
	for range 10 {
		s.Say(fmt.Sprint(name, " 200000"))
		ns := tracetest.Must(strconv.ParseFloat(s.Expect("took ", testenv.Patience), 64))(b)
		least = min(least, ns)
	}
	b.ReportMetric(least, "ns/call")
	b.ReportMetric(0, "ns/op")
}
