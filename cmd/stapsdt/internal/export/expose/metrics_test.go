//go:build linux

package expose

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKinds: the numbers come as they are, in each format.
func TestKinds(t *testing.T) {
	h := handler(t, fixed{
		{Name: "shop_requests_total", Help: "Requests.", Labels: []string{"route", "method"}, Series: []Series{
			{Values: []string{"/b", "GET"}, Value: 2, Created: start}, {Values: []string{"/a", "GET"}, Value: 1 << 52, Created: start},
		}},
		{Name: "shop_depth", Kind: Gauge, Series: []Series{{Value: -3.5}}},
		{Name: "shop_bytes_total", Unit: "bytes", Kind: Counter, Series: []Series{{Value: 7}}},
		{Name: "shop_seconds", Unit: "seconds", Kind: Histogram, Bounds: []float64{0.1, 1}, Series: []Series{
			{Sum: 12.5, Buckets: []uint64{5, 3, 1}, Created: start},
		}},
	})
	for _, format := range []string{"", protobufs} {
		found := scrape(t, h, format)
		for name, want := range map[string]map[string]float64{
			"shop_requests_total": {`method="GET",route="/a"`: 1 << 52, `method="GET",route="/b"`: 2},
			"shop_depth":          {"": -3.5},
			"shop_bytes_total":    {"": 7},
		} {
			assert.Equal(t, want, series(found[name]), "%q: %s", format, name)
		}
		got := found["shop_seconds"].GetMetric()[0].GetHistogram()
		require.Equal(t, uint64(9), got.GetSampleCount(), "%q: %v", format, got)
		require.Equal(t, 12.5, got.GetSampleSum(), "%q: %v", format, got)
		require.GreaterOrEqual(t, len(got.Bucket), 2, "%q: %v", format, got) // +Inf follows from the count
		for i, want := range []uint64{5, 8} {
			assert.Equal(t, want, got.Bucket[i].GetCumulativeCount(), "%q: bucket %d", format, i)
		}
	}
	found := scrape(t, h, protobufs)
	got := found["shop_requests_total"].GetMetric()[0].GetCounter().GetCreatedTimestamp().AsTime()
	assert.True(t, got.Equal(start), "counted since %v", got)
	assert.Equal(t, "seconds", found["shop_seconds"].GetUnit(), "the unit")
	text := get(t, h, "/metrics", openMetrics)
	for _, want := range []string{"# TYPE shop_bytes counter\n", "shop_bytes_total 7", "\n# EOF\n", `shop_seconds_bucket{le="+Inf"} 9`} {
		assert.Contains(t, text.Body.String(), want, "OpenMetrics")
	}
}

// TestHostileLabels: whatever a traced program has in a text is in one label of one series.
func TestHostileLabels(t *testing.T) {
	hostile := []string{
		"", "two\nlines", `"} 1` + "\n# EOF\n" + `up{a="`, `back\slash\`, "tab\tand\r\x00nul\x1b[31m", strings.Repeat("x", 4096),
		"\u202eright to left", "\ufeff", "emoji \U0001f600",
	}
	f := Family{Name: "shop_total", Help: "two\nlines \\ \xff", Labels: []string{"text"}}
	want := map[string]float64{}
	for i, text := range hostile {
		f.Series = append(f.Series, Series{Values: []string{text}, Value: float64(i + 1)})
		want[text] += float64(i + 1)
	}
	h := handler(t, fixed{f})
	for _, format := range []string{"", protobufs} {
		got := map[string]float64{}
		for _, m := range scrape(t, h, format)["shop_total"].GetMetric() {
			got[m.Label[0].GetValue()] = m.Counter.GetValue()
		}
		assert.Equal(t, want, got, format)
	}
	text := get(t, h, "/metrics", openMetrics).Body.String()
	assert.Equal(t, 1, strings.Count(text, "\n# EOF\n"), "a label ends the answer: %q", text)
	assert.True(t, strings.HasSuffix(text, "\n# EOF\n"), "a label ends the answer: %q", text)
}

// TestSameLabels: two series with the same labels become one, with the numbers of both, and what the source has is not changed.
func TestSameLabels(t *testing.T) {
	exemplar := Exemplar{Value: 1, SpanID: 1, Time: start}
	source := fixed{
		{Name: "n_total", Labels: []string{"a", "b"}, Series: []Series{
			{Values: []string{"x", "y"}, Value: 2, Created: start.Add(time.Hour)}, {Values: []string{"x", "y"}, Value: 3, Created: start},
			{Values: []string{"", "xy"}, Value: 5}, {Overflow: true, Value: 7}, {Overflow: true, Value: 11},
		}},
		{Name: "classic", Kind: Histogram, Labels: []string{"a"}, Bounds: []float64{1}, Series: []Series{
			{Values: []string{"x"}, Buckets: []uint64{1, 2}, Sum: 1, Exemplars: []Exemplar{exemplar}}, {Values: []string{"x"}, Buckets: []uint64{3, 4}, Sum: 2},
		}},
		{Name: "native", Kind: Histogram, Labels: []string{"a"}, Native: true, Series: []Series{
			{Values: []string{"x"}, Zero: 1, Exponential: map[int]uint64{1: 1}}, {Values: []string{"x"}, Zero: 2, Exponential: map[int]uint64{1: 2, 2: 4}},
		}},
	}
	h := handler(t, source)
	for range 2 { // the second time shows whether the source was changed
		found := scrape(t, h, protobufs)
		want := map[string]float64{`a="x",b="y"`: 5, `a="",b="xy"`: 5, `otel_metric_overflow="true"`: 18}
		assert.Equal(t, want, series(found["n_total"]))
		if m := found["classic"].GetMetric(); assert.Len(t, m, 1) {
			assert.Equal(t, uint64(10), m[0].Histogram.GetSampleCount())
			assert.Equal(t, float64(3), m[0].Histogram.GetSampleSum())
			assert.Equal(t, uint64(4), m[0].Histogram.Bucket[0].GetCumulativeCount())
			assert.NotNil(t, m[0].Histogram.Bucket[0].Exemplar)
		}
		if m := found["native"].GetMetric(); assert.Len(t, m, 1) {
			assert.Equal(t, uint64(10), m[0].Histogram.GetSampleCount())
			assert.Equal(t, uint64(3), m[0].Histogram.GetZeroCount())
			assert.Equal(t, []int64{3, 1}, m[0].Histogram.PositiveDelta)
		}
		for _, m := range found["n_total"].GetMetric() {
			if m.Label[0].GetValue() == "x" {
				assert.True(t, m.Counter.GetCreatedTimestamp().AsTime().Equal(start), "counted since %v", m.Counter.GetCreatedTimestamp().AsTime())
			}
		}
	}
}

// TestInvalid: what Prometheus would refuse is left out and counted, and the rest is there.
func TestInvalid(t *testing.T) {
	one := []Series{{Value: 1}}
	labeled := []Series{{Values: []string{"x"}, Value: 1}}
	source := failing{fixed{
		{Name: "good", Kind: Gauge, Labels: []string{"a"}, Series: []Series{{Values: []string{"x"}, Value: 1}, {Values: []string{"x", "y"}}, {}}},
		{Name: "empty"},
		{Name: "", Series: one}, {Name: "a", Labels: []string{"__name__"}, Series: labeled},
		{Name: "d", Labels: []string{"e", "e"}, Series: []Series{{Values: []string{"x", "y"}}}},
	}}
	h := handler(t, source)
	scrape(t, h, "") // what a scrape finds is in the next
	found := scrape(t, h, "")
	var names []string
	for name := range found {
		if !strings.HasPrefix(name, "promhttp_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	assert.Equal(t, []string{"good", "stapsdt_export_collect_failures_total", "stapsdt_export_invalid_series_total"}, names)
	assert.Equal(t, map[string]float64{`a="x"`: 1}, series(found["good"]))
	assert.Equal(t, map[string]float64{"": 2 * 5}, series(found["stapsdt_export_invalid_series_total"]))
	assert.Equal(t, map[string]float64{"": 2}, series(found["stapsdt_export_collect_failures_total"]))
}

// TestExemplars: an exemplar is in its bucket, the newest if there are several.
func TestExemplars(t *testing.T) {
	exemplars := []Exemplar{
		{Value: 0.5, Time: start.Add(2 * time.Second), SpanID: 2}, {Value: 1, Time: start, SpanID: 1},
		{Value: 3, Time: start, SpanID: 0xfedcba9876543210},
	}
	h := handler(t, fixed{
		{Name: "classic", Kind: Histogram, Bounds: []float64{1, 2}, Series: []Series{{Buckets: []uint64{2, 0, 1}, Sum: 4.5, Exemplars: exemplars}}},
		{Name: "native", Kind: Histogram, Native: true, Series: []Series{
			{Exponential: map[int]uint64{-8: 1, 0: 1, 13: 1}, Sum: 4.5, Exemplars: exemplars},
		}},
	})
	found := scrape(t, h, protobufs)
	buckets := found["classic"].Metric[0].Histogram.Bucket
	for i, want := range []string{"0000000000000002", "", "fedcba9876543210"} {
		got := ""
		if e := buckets[i].Exemplar; e != nil {
			got = e.Label[0].GetValue()
			assert.Equal(t, "span_id", e.Label[0].GetName(), e)
		}
		assert.Equal(t, want, got, "the exemplar of bucket %d", i)
	}
	var times []time.Time
	for _, e := range found["native"].Metric[0].Histogram.Exemplars {
		times = append(times, e.Timestamp.AsTime())
	}
	assert.Len(t, times, 3)
	assert.True(t, slices.IsSortedFunc(times, time.Time.Compare), times)
	text := get(t, h, "/metrics", openMetrics).Body.String()
	for _, want := range []string{
		`classic_bucket{le="1.0"} 2 # {span_id="0000000000000002"} 0.5 1.700000002e+09`, `native_bucket{le="+Inf"} 3 # {span_id="0000000000000002"} 0.5`,
	} {
		assert.Contains(t, text, want)
	}
}

// TestEmptyNative: a native histogram of nothing is one.
func TestEmptyNative(t *testing.T) {
	h := handler(t, fixed{{Name: "n", Kind: Histogram, Native: true, Series: []Series{{}}}})
	got := scrape(t, h, protobufs)["n"].Metric[0].Histogram
	assert.NotZero(t, got.GetZeroThreshold(), got)
	assert.Zero(t, got.GetSampleCount(), got)
	assert.Empty(t, got.PositiveDelta, got)
}
