//go:build linux

package export

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/metric"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestSocketMetrics: rules make metrics of each kind from the events of a program's recording, which is all that a socket gives, and what was
// collected does not change with later events.
func TestSocketMetrics(t *testing.T) {
	p := stapsdt.NewProvider("shop")
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	start := stapsdt.NewProbe2[uint64, string](p, "job__start", "id", "queue")
	end := stapsdt.NewProbe2[uint64, int](p, "job__end", "id", "status")
	done := stapsdt.NewProbe3[string, time.Duration, int](p, "done", "path", "took", "bytes")
	dir := t.TempDir()
	recording := filepath.Join(dir, "recording")
	recorder, err := proberec.Create(recording, 1<<20, p)
	require.NoError(t, err)
	recorder.Start()
	for id, path := range []string{"/a", "/b", "/a", "/a\xff"} {
		start.Fire(uint64(id), "q"+path[1:2])
		done.Fire(path, time.Duration(id)*time.Second, 1000*(id-1))
		if id != 1 {
			end.Fire(uint64(id), 200)
		}
	}
	require.NoError(t, recorder.Close())

	all, err := rules.Parse("rules.yaml", []byte(`
metrics:
  - {name: done_total, probe: "shop:done", counter: 1, by: [path], labels: [executable]}
  - {name: few_total, probe: "shop:done", counter: 1, by: [path], labels: [], series: 2}
  - {name: bytes_total, probe: "shop:done", counter: bytes, labels: []}
  - {name: last_bytes, probe: "shop:*", gauge: bytes, labels: [], where: bytes > 0}
  - {name: took_seconds, probe: "shop:done", histogram: took, unit: seconds, buckets: [1, 2], labels: []}
  - {name: job_seconds, start: "shop:job__start", end: "shop:job__end", duration: true, buckets: [60], labels: [], by: [queue, status]}
  - {name: jobs, start: "shop:job__start", end: "shop:job__end", in_flight: true, labels: [container], by: [queue]}
  - {name: few_jobs, start: "shop:job__start", end: "shop:job__end", in_flight: true, labels: [container], by: [queue], series: 1}
  - {name: other_total, probe: "other:done", counter: 1, labels: []}
`))
	require.NoError(t, err)
	source, err := replay.Open(replay.From{Paths: []string{recording}}, nil, "", nil)
	require.NoError(t, err)
	t.Cleanup(source.Close)
	var warnings []string
	e := &socketExporter{now: &watch{feed: &live.Feed{}}}
	e.now.exporter = e
	for _, text := range all.Metrics {
		m := metric.NewRecorded(text, cgroup.Container{}, time.Now(), func(err error) { warnings = append(warnings, err.Error()) })
		e.now.metrics = append(e.now.metrics, m)
	}
	e.now.came(source.Probes())
	_, err = source.More()
	require.NoError(t, err)
	var collected []expose.Family
	was := ""
	for n := 0; ; n++ {
		event, file, err := source.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.NoError(t, e.now.Event(event, file))
		if n == 5 {
			collected, err = e.Collect()
			require.NoError(t, err)
			was = fmt.Sprint(collected)
		}
	}
	require.Equal(t, was, fmt.Sprint(collected))
	handler, err := expose.NewHandler(expose.NewMetrics(e, prometheus.NewRegistry()))
	require.NoError(t, err)
	page := httptest.NewRecorder()
	handler.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	values := map[string]string{}
	for line := range strings.Lines(page.Body.String()) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if name != "#" && !strings.HasPrefix(name, "job_seconds_sum") && !strings.HasPrefix(name, "promhttp") && (!strings.HasPrefix(name, "stapsdt") || strings.Contains(name, "lost") && value != "0") {
			values[name] = value
		}
	}
	program := filepath.Base(os.Args[0])
	require.Equal(t, map[string]string{
		`done_total{container="",executable="` + program + `",namespace="",path="/a",pod=""}`: "2", `done_total{container="",executable="` + program + `",namespace="",path="/b",pod=""}`: "1",
		`done_total{container="",executable="` + program + `",namespace="",path="/a` + "\uFFFD" + `",pod=""}`: "1",
		`few_total{container="",namespace="",path="/a",pod=""}`:                                               "2", `few_total{container="",namespace="",path="/b",pod=""}`: "1", `few_total{container="",namespace="",otel_metric_overflow="true",pod=""}`: "1",
		`bytes_total{container="",namespace="",pod=""}`:                "3000", // a counter does not fall by the -1000 of the first
		`last_bytes{container="",namespace="",pod="",probe="done"}`:    "2000",
		`took_seconds_bucket{container="",namespace="",pod="",le="1"}`: "2", `took_seconds_bucket{container="",namespace="",pod="",le="2"}`: "3", `took_seconds_bucket{container="",namespace="",pod="",le="+Inf"}`: "4",
		`took_seconds_sum{container="",namespace="",pod=""}`: "6", `took_seconds_count{container="",namespace="",pod=""}`: "4",
		`job_seconds_bucket{container="",namespace="",pod="",queue="qa",status="200",le="60"}`: "3", `job_seconds_bucket{container="",namespace="",pod="",queue="qa",status="200",le="+Inf"}`: "3",
		`job_seconds_count{container="",namespace="",pod="",queue="qa",status="200"}`: "3",
		`jobs{container="",namespace="",pod="",queue="qa"}`:                           "0", `jobs{container="",namespace="",pod="",queue="qb"}`: "1",
		`few_jobs{container="",namespace="",pod="",queue="qb"}`:                "1", // and not the one that is 0
		`other_total{container="",namespace="",pod=""}`:                        "0",
		`stapsdt_lost_events_total{metric="bytes_total",reason="unevaluated"}`: "1",
	}, values)
	require.Contains(t, strings.Join(warnings, "\n"), "last_bytes: shop:job__start: ")
	e.now.gone(source.Files()[0])
	page = httptest.NewRecorder()
	handler.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.NotRegexp(t, `(?m)^(last_bytes|jobs|few_jobs)\{`, page.Body.String(), "a process that has ended has no gauges")
	require.Contains(t, page.Body.String(), "\nbytes_total{container=\"\",namespace=\"\",pod=\"\"} 3000")
}
