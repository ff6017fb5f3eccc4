//go:build linux

package expose

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// large returns count series of a kind, with the labels that those of a shop have.
func large(kind dto.MetricType, native bool, count int) fixed {
	f := Family{Name: "shop_requests", Help: "Requests.", Kind: kind, Native: native, Labels: []string{"method", "route", "status", "executable"}}
	if kind == Histogram && !native {
		f.Bounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	}
	for i := range count {
		s := Series{Values: []string{"GET", fmt.Sprintf("/product/%d", i/5), fmt.Sprint(200 + i%5), "shop"}, Value: float64(i), Sum: float64(i), Created: start}
		if kind == Histogram {
			s.Exemplars = []Exemplar{{Value: .3, Time: start, SpanID: uint64(i + 1)}}
		}
		if native {
			s.Exponential = map[int]uint64{}
			for n := range 20 {
				s.Exponential[n-60] = uint64(n * i)
			}
		}
		for n := range len(f.Bounds) {
			s.Buckets = append(s.Buckets, uint64(n*i))
		}
		if kind == Histogram && !native {
			s.Buckets = append(s.Buckets, 0)
		}
		f.Series = append(f.Series, s)
	}
	return fixed{f}
}

// scraped are what 10,000 series can be: a classic histogram is one for each of its buckets, and
// two.
var scraped = []struct {
	name   string
	source fixed
}{
	{"counters", large(Counter, false, 10_000)},
	{"classic histograms", large(Histogram, false, 10_000/14)},
	{"native histograms", large(Histogram, true, 10_000)},
	{"classic histograms of 140,000", large(Histogram, false, 10_000)},
}

// answer scrapes, as Prometheus does over the network, and returns how many bytes it got.
func answer(t testing.TB, url, accept, encoding string) int64 {
	r, err := http.NewRequest(http.MethodGet, url+"/metrics", nil)
	require.NoError(t, err)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", encoding)
	w, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer w.Body.Close()
	n, err := io.Copy(io.Discard, w.Body)
	require.NoError(t, err, w.Status)
	require.Equal(t, http.StatusOK, w.StatusCode, w.Status)
	return n
}

// BenchmarkScrape measures the scrape of 10,000 series in each format.
func BenchmarkScrape(b *testing.B) {
	for _, c := range scraped {
		server := httptest.NewServer(handler(b, c.source))
		defer server.Close()
		for _, format := range []struct{ name, accept, encoding string }{
			{"text", openMetrics, "identity"}, {"text,gzip", openMetrics, "gzip"}, {"protobuf,gzip", protobufs, "gzip"},
		} {
			b.Run(c.name+"/"+format.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					b.SetBytes(answer(b, server.URL, format.accept, format.encoding))
				}
			})
		}
	}
}

// TestScrapeTime: 10,000 series take less than 100 ms. A machine has other things to do now and
// then, and one of many scrapes is enough.
func TestScrapeTime(t *testing.T) {
	testenv.NotRaced(t, "the race detector makes it many times slower")
	testenv.NeedsOptimization(t, "it measures")
	testenv.NotEmulated(t, "it measures")
	for _, c := range scraped[:2] {
		server := httptest.NewServer(handler(t, c.source))
		defer server.Close()
		const limit = 100 * time.Millisecond
		best := time.Hour
		for began := time.Now(); best >= limit && time.Since(began) < testenv.Patience; {
			start := time.Now()
			answer(t, server.URL, openMetrics, "gzip")
			best = min(best, time.Since(start))
		}
		t.Logf("%s: %v", c.name, best)
		assert.Less(t, best, limit, "%s: a scrape of 10,000 series", c.name)
	}
}
