//go:build linux

package expose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// large returns count series of a kind, with the labels that those of a shop have.
func large(kind dto.MetricType, count int) fixed {
	f := Family{Name: "shop_requests", Help: "Requests.", Kind: kind, Labels: []string{"method", "route", "status", "executable"}}
	if kind == Histogram {
		f.Bounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	}
	for i := range count {
		s := Series{Values: []string{"GET", fmt.Sprintf("/product/%d", i/5), fmt.Sprint(200 + i%5), "shop"}, Value: float64(i), Sum: float64(i), Created: start}
		if kind == Histogram {
			s.Exemplars = []Exemplar{{Value: .3, Time: start, SpanID: uint64(i + 1)}}
		}
		for n := range len(f.Bounds) {
			s.Buckets = append(s.Buckets, uint64(n*i))
		}
		if kind == Histogram {
			s.Buckets = append(s.Buckets, 0)
		}
		f.Series = append(f.Series, s)
	}
	return fixed{f}
}

// TestScrapeCost: the text has a line for each series, and what the scrape of a series allocates does not depend on how many there
// are.
func TestScrapeCost(t *testing.T) {
	testenv.NotRaced(t, "the race detector allocates, and lets pools forget")
	for _, c := range []struct {
		name  string
		kind  dto.MetricType
		count int     // of series, at most 10,000
		lines int     // of a series
		most  float64 // allocations of a series
	}{{"counters", Counter, 10_000, 1, 30}, {"classic histograms", Histogram, 1000, 14, 105}} {
		cost := func(count int) float64 {
			h := handler(t, large(c.kind, count))
			lines := 0
			for line := range strings.Lines(get(t, h, "/metrics", openMetrics).Body.String()) {
				if strings.HasPrefix(line, "shop_requests") {
					lines++
				}
			}
			require.Equal(t, c.lines*count, lines, c.name)
			return testing.AllocsPerRun(3, func() { get(t, h, "/metrics", openMetrics) }) / float64(count)
		}
		few, many := cost(c.count/10), cost(c.count)
		t.Logf("%s: %.1f allocations for each of %d series, %.1f for each of %d", c.name, few, c.count/10, many, c.count)
		assert.LessOrEqual(t, many, few+1, c.name)
		assert.LessOrEqual(t, many, c.most, c.name)
	}
}
