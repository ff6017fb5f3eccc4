//go:build linux

package expose

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"

	"github.com/stretchr/testify/require"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
)

// varying is a source whose families change.
type varying struct{ families []Family }

func (v *varying) Collect() ([]Family, error) { return v.families, nil }

// adding sends metrics when told to, and adds up the deltas that arrive, by metric and container.
type adding struct {
	*OTLP
	t         *testing.T
	source    *varying
	collector *collector
	sums      map[string]float64
	buckets   map[string][]uint64 // of histograms, and of native ones from the index -64 on
	since     map[string]uint64   // the time of the last point
}

func addDeltas(t *testing.T) *adding {
	c := collect(t, "127.0.0.1:0")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
	a := &adding{t: t, collector: c, source: &varying{}, sums: map[string]float64{}, buckets: map[string][]uint64{}, since: map[string]uint64{}}
	a.OTLP, _ = startOTLP(t, "http://"+c.addr, a.source, silent)
	require.NoError(t, shutdown(t, a.OTLP)) // it sends only when the test says so
	return a
}

// send sends the families, and returns the metrics of the rules that have arrived.
func (a *adding) send(families ...Family) (names []string) {
	a.source.families = families
	a.collector.mu.Lock()
	a.collector.resources = nil
	a.collector.mu.Unlock()
	_ = a.sendMetrics(a.t.Context())
	a.collector.mu.Lock()
	defer a.collector.mu.Unlock()
	for _, r := range a.collector.resources {
		container := attributes(r.Resource.Attributes)["container.id"]
		for _, m := range r.ScopeMetrics[0].Metrics {
			if m.Name[0] != 'x' { // the exporter's own
				continue
			}
			of := m.Name + container
			names = append(names, of)
			a.add(of, m)
		}
	}
	return names
}

func (a *adding) add(of string, m *metrics.Metric) {
	const delta = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	count := func(at int, n uint64) {
		for len(a.buckets[of]) <= at {
			a.buckets[of] = append(a.buckets[of], 0)
		}
		a.buckets[of][at] += n
	}
	follows := func(p point) {
		if last := a.since[of]; last > 0 && p.GetStartTimeUnixNano() <= last {
			require.Equal(a.t, last, p.GetStartTimeUnixNano(), "it follows the point before")
		}
		a.since[of] = p.GetTimeUnixNano()
	}
	switch data := m.Data.(type) {
	case *metrics.Metric_Sum:
		require.Equal(a.t, delta, data.Sum.AggregationTemporality)
		follows(data.Sum.DataPoints[0])
		a.sums[of] += data.Sum.DataPoints[0].GetAsDouble()
	case *metrics.Metric_Histogram:
		require.Equal(a.t, delta, data.Histogram.AggregationTemporality)
		p := data.Histogram.DataPoints[0]
		follows(p)
		sum := uint64(0)
		for i, n := range p.BucketCounts {
			count(i, n)
			sum += n
		}
		require.Equal(a.t, p.Count, sum)
		a.sums[of] += p.GetSum()
	case *metrics.Metric_ExponentialHistogram:
		require.Equal(a.t, delta, data.ExponentialHistogram.AggregationTemporality)
		p := data.ExponentialHistogram.DataPoints[0]
		follows(p)
		sum := p.ZeroCount
		for i, n := range p.Positive.BucketCounts {
			count(64+int(p.Positive.Offset)+i, n)
			sum += n
		}
		require.Equal(a.t, p.Count, sum)
		a.sums[of] += p.GetSum()
	}
}

func counter(n float64) Family {
	return Family{Name: "x_total", Series: []Series{{Value: n, Created: start}}}
}

// TestDeltas: what arrives adds up to the cumulative numbers, also if messages fail meanwhile, and a point to which
// nothing was added is left out.
func TestDeltas(t *testing.T) {
	a := addDeltas(t)
	histogram := func(sum float64, n ...uint64) Family {
		return Family{Name: "x_seconds", Kind: Histogram, Bounds: []float64{1, 2}, Series: []Series{{Buckets: n, Sum: sum, Created: start}}}
	}
	native := func(sum float64, zero uint64, n map[int]uint64) Family {
		return Family{Name: "x_native_seconds", Kind: Histogram, Native: true, Series: []Series{{Zero: zero, Exponential: n, Sum: sum, Created: start}}}
	}
	gauge := Family{Name: "x_depth", Kind: Gauge, Series: []Series{{Value: 2}}}
	all := []string{"x_total", "x_seconds", "x_native_seconds"}
	require.ElementsMatch(t, append([]string{"x_depth"}, all...),
		a.send(counter(3), histogram(5, 1, 0, 2), native(7, 1, map[int]uint64{4: 2}), gauge))
	require.Equal(t, []string{"x_depth"}, a.send(counter(3), histogram(5, 1, 0, 2), native(7, 1, map[int]uint64{4: 2}), gauge))
	a.collector.answers(http.StatusServiceUnavailable)
	require.Empty(t, a.send(counter(10), histogram(6, 2, 0, 2), native(8, 1, map[int]uint64{4: 2, 9: 1})))
	a.collector.answers(0)
	require.ElementsMatch(t, all, a.send(counter(11), histogram(9, 2, 1, 3), native(20, 3, map[int]uint64{-8: 1, 4: 5, 9: 1})))
	require.Equal(t, map[string]float64{"x_total": 11, "x_seconds": 9, "x_native_seconds": 20}, a.sums)
	require.Equal(t, []uint64{2, 1, 3}, a.buckets["x_seconds"])
	for index, want := range map[int]uint64{-8: 1, 4: 5, 9: 1, 5: 0} {
		require.Equal(t, want, a.buckets["x_native_seconds"][64+index-1], index)
	}
}

// TestDeltasOfOthers: a series that begins anew under the same labels is counted whole, and a sum that becomes smaller,
// because one of its parts has ended, is not counted again.
func TestDeltasOfOthers(t *testing.T) {
	a := addDeltas(t)
	a.send(counter(150))
	require.Empty(t, a.send(counter(50)))
	require.Equal(t, float64(150), a.sums["x_total"])
	a.send(counter(57))
	require.Equal(t, float64(157), a.sums["x_total"])
	again := counter(2)
	again.Series[0].Created = time.Now()
	a.send(again)
	require.Equal(t, float64(159), a.sums["x_total"])

	require.NotEmpty(t, a.known("x_total"))
	require.Empty(t, a.send())
	require.Empty(t, a.known("x_total"), "what is gone is forgotten")
}

// known returns the keys of a metric's points that the collector knows.
func (a *adding) known(name string) (keys []string) {
	for key := range a.deltas.accepted {
		if strings.Contains(key, name) {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestDeltasOfContainers: the deltas of each container are its own, and those of the exporter are cumulative if the
// preference is lowmemory.
func TestDeltasOfContainers(t *testing.T) {
	a := addDeltas(t)
	a.lasting = true
	of := func(one, two float64) Family {
		return Family{Name: "x_total", PerContainer: true, Labels: []string{ContainerID}, ContainerLabels: []string{ContainerID}, Series: []Series{
			{Values: []string{"1"}, Container: cgroup.Container{ID: "1"}, Value: one, Created: start},
			{Values: []string{"2"}, Container: cgroup.Container{ID: "2"}, Value: two, Created: start},
		}}
	}
	a.send(of(1, 10))
	a.send(of(3, 10))
	a.send(of(3, 40))
	require.Len(t, a.sums, 2)
	for key, sum := range a.sums {
		require.Contains(t, []float64{3, 40}, sum, key)
	}
	cumulative := metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	require.Equal(t, cumulative, a.collector.metric("stapsdt_export_collect_failures_total").GetSum().GetAggregationTemporality())
}
