//go:build linux

package expose

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// converted returns a family as Prometheus's package makes it of its own metrics, or nil if no series is valid.
func converted(t *testing.T, f *Family) *dto.MetricFamily {
	t.Helper()
	to := &dto.MetricFamily{Name: &f.Name, Help: proto.String(Repaired(f.Help)), Type: f.Kind.Enum()}
	if f.Unit != "" {
		to.Unit = &f.Unit
	}
	sums := map[string]*Series{}
	var keys []string
	for i := range f.Series {
		s := f.Series[i]
		key := ""
		if !s.Overflow {
			key = "\xff" + strings.Join(s.Values, "\xff")
		}
		if sums[key] == nil {
			sums[key], keys = &s, append(keys, key)
		} else {
			sums[key].add(&s)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if m := convertedSeries(t, f, sums[key]); m != nil {
			to.Metric = append(to.Metric, m)
		}
	}
	if len(to.Metric) == 0 {
		return nil
	}
	return to
}

func convertedSeries(t *testing.T, f *Family, s *Series) *dto.Metric {
	t.Helper()
	if !s.Overflow && len(s.Values) != len(f.Labels) {
		return nil
	}
	names, values := f.labels(s)
	desc := prometheus.NewDesc(f.Name, "", names, nil)
	var m prometheus.Metric
	var err error
	switch {
	case f.Kind == Gauge:
		m, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.Value, values...)
	case f.Kind == Histogram && f.Native:
		m, err = s.native(f, desc)
	case f.Kind == Histogram:
		count, cumulative := uint64(0), map[float64]uint64{}
		for i, n := range s.Buckets {
			if count += n; i < len(f.Bounds) {
				cumulative[f.Bounds[i]] = count
			}
		}
		m, err = prometheus.NewConstHistogramWithCreatedTimestamp(desc, count, s.Sum, cumulative, s.Created, values...)
	case s.Created.IsZero():
		m, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, s.Value, values...)
	default:
		m, err = prometheus.NewConstMetricWithCreatedTimestamp(desc, prometheus.CounterValue, s.Value, s.Created, values...)
	}
	if err == nil && f.Kind == Histogram && len(s.Exemplars) > 0 {
		m, err = s.withExemplars(m)
	}
	if err != nil {
		return nil
	}
	to := &dto.Metric{}
	require.NoError(t, m.Write(to))
	return to
}

// encoded returns families in a format.
func encoded(t *testing.T, format expfmt.Format, all []*dto.MetricFamily) string {
	t.Helper()
	var to bytes.Buffer
	e := expfmt.NewEncoder(&to, format)
	for _, f := range all {
		require.NoError(t, e.Encode(f))
	}
	require.NoError(t, e.(expfmt.Closer).Close())
	return to.String()
}

// someFamilies returns families with a random choice of series and numbers.
func someFamilies(r *rand.Rand) (all []Family) {
	labels := [][]string{{}, {"b"}, {"b", "a", ContainerID, Workload, "pod"}, {"b", "__name__"}, {"b", "b"}}
	texts := []string{"", "x", "xy", "x\x01", "\u00e9", "a \"quoted\"\nline", "\xff"}
	for i := range 8 {
		f := Family{
			Name: fmt.Sprintf("some_%d_total", i), Help: "Help\n\xff.", Kind: []dto.MetricType{Counter, Gauge, Histogram}[r.IntN(3)],
			Native: r.IntN(2) == 0, Bounds: []float64{-1, 0.5, 2e9}[:r.IntN(4)], Labels: labels[r.IntN(len(labels))],
			ContainerLabels: []string{ContainerID, Workload, "pod"},
		}
		if r.IntN(4) == 0 {
			f.Unit = "seconds"
		}
		for range r.IntN(12) {
			s := Series{Overflow: r.IntN(5) == 0, Value: r.NormFloat64(), Sum: r.NormFloat64()}
			if f.Kind == Counter {
				s.Value = float64(r.IntN(1000))
			}
			for range f.Labels {
				s.Values = append(s.Values, texts[r.IntN(len(texts))])
			}
			if r.IntN(20) == 0 {
				s.Values = append(s.Values, "too many")
			}
			if s.Overflow {
				s.Values = nil
			}
			if r.IntN(3) > 0 || f.Kind == Histogram {
				s.Created = start.Add(time.Duration(r.IntN(2)) * time.Millisecond)
			}
			s.Exponential = map[int]uint64{}
			for range r.IntN(4) {
				s.Exponential[r.IntN(9)-4] += r.Uint64N(10)
				s.Exemplars = append(s.Exemplars, Exemplar{r.NormFloat64(), start.Add(time.Duration(r.IntN(9))), r.Uint64()})
			}
			for range len(f.Bounds) + 1 {
				s.Buckets = append(s.Buckets, r.Uint64N(100))
			}
			f.Series = append(f.Series, s)
		}
		all = append(all, f)
	}
	return all[:r.IntN(len(all)+1)]
}

// TestPage: a page that is filled again and again has what Prometheus's package makes of the same numbers, byte for byte and
// in each format, whatever it had before.
func TestPage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := &page{}
	all := someFamilies(r)
	for i := range 500 {
		if i%3 == 0 {
			all = someFamilies(r)
		}
		for j := range all { // series vanish, and the numbers of the others are new
			if n := len(all[j].Series); n > 0 && i%3 == 1 {
				at := r.IntN(n)
				all[j].Series = slices.Delete(all[j].Series, at, at+1)
			}
			for k := range all[j].Series {
				s := &all[j].Series[k]
				s.Value++
				s.Sum += 0.1
				s.Buckets[0]++
				if i%2 == 0 {
					s.Exemplars = nil
				}
			}
		}
		var want []*dto.MetricFamily
		for j := range all {
			if f := converted(t, &all[j]); f != nil {
				want = append(want, f)
			}
		}
		got, _ := p.convert(all)
		for _, format := range []expfmt.Format{
			expfmt.NewFormat(expfmt.TypeTextPlain), expfmt.NewFormat(expfmt.TypeOpenMetrics), expfmt.NewFormat(expfmt.TypeProtoDelim),
		} {
			require.Equal(t, encoded(t, format, want), encoded(t, format, got), "%d %s", i, format)
		}
	}
}

// counting is a source whose series all have the number of the call.
type counting struct{ calls atomic.Int64 }

func (c *counting) Collect() ([]Family, error) {
	n := c.calls.Add(1)
	f := Family{Name: "n_total", Labels: []string{"text"}}
	for i := range 200 + n%7 {
		f.Series = append(f.Series, Series{Values: []string{strings.Repeat("x", 50) + fmt.Sprint(i)}, Value: float64(n)})
	}
	return []Family{f}, nil
}

// TestConcurrentScrapes: each of several scrapes at the same time has the numbers and the series of its own moment, also
// compressed.
func TestConcurrentScrapes(t *testing.T) {
	h := handler(t, &counting{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 20 {
				r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
				w := httptest.NewRecorder()
				if i%2 == 0 {
					r.Header.Set("Accept-Encoding", "gzip")
				}
				h.ServeHTTP(w, r)
				var body io.Reader = w.Body
				if i%2 == 0 {
					unzipped, err := gzip.NewReader(w.Body)
					if err != nil {
						t.Error(err)
						return
					}
					body = unzipped
				}
				text, err := io.ReadAll(body)
				if err != nil {
					t.Error(err)
					return
				}
				numbers := map[string]int{}
				for line := range strings.Lines(string(text)) {
					if strings.HasPrefix(line, "n_total{") {
						numbers[line[strings.LastIndexByte(line, ' ')+1:]]++
					}
				}
				for n, series := range numbers {
					var call int
					_, err := fmt.Sscan(n, &call)
					if err != nil || len(numbers) != 1 || series != 200+call%7 {
						t.Errorf("the numbers of one scrape, and their series: %v", numbers)
					}
				}
			}
		})
	}
	all.Wait()
}
