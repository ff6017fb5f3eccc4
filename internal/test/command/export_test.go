//go:build linux && (amd64 || arm64)

package command_test

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestExport: each kind of metric is what was fired, until the process ends. One without labels begins with 0.
func TestExport(t *testing.T) {
	t.Parallel()
	name := filepath.Base(tracetest.Build(t, "subject"))
	p, e := startExported(t, saidRule+`
  - {name: said_bytes_total, probe: "PROVIDER:said", counter: bytes, unit: bytes, labels: [executable], by: [{initial: "strings.HasPrefix(text, \"a\")"}]}
  - {name: said_size_bytes, probe: "PROVIDER:said", histogram: bytes, unit: bytes, buckets: [1, 2.5, 4], labels: []}
  - {name: level, probe: "PROVIDER:level", gauge: depth, scale: 0.5, labels: []}
  - {name: long_total, probe: "PROVIDER:*", counter: 1, where: bytes > 2, labels: []}
  - {name: depth, probe: 'PROVIDER:level', gauge: depth, by: [depth], labels: [], series: 1}
  - {name: native_bytes, probe: "PROVIDER:said", histogram: bytes, unit: bytes, buckets: native, labels: []}
  - {name: jobs_in_flight, start: "PROVIDER:job__start", end: "PROVIDER:job__end", in_flight: true, labels: []}
  - {name: root_total, probe: "PROVIDER:said", counter: 1, user: root, executable: `+name[:1]+`*, labels: []}
  - {name: nobody_total, probe: "PROVIDER:said", counter: 1, user: nobody, labels: []}
  - {name: group_total, probe: "PROVIDER:said", counter: 1, cgroup: /*, labels: []}
  - {name: no_group_total, probe: "PROVIDER:said", counter: 1, cgroup: /no-such-group/*, labels: []}
`)
	e.waitForSites("said_total", 1)
	e.waitForSites("jobs_in_flight", 2)
	for _, name := range []string{"said_size_bytes_count", "native_bytes_count", "jobs_in_flight"} {
		require.Equal(t, map[string]float64{"": 0}, series(e.scrape(), name), name)
	}
	tell(p, "job 2")
	require.Equal(t, map[string]float64{"": 0}, series(e.scrape(), "jobs_in_flight"))
	for _, text := range []string{"a", "bb", "a", "cccc", "aaaaa"} {
		tell(p, "say "+strconv.Quote(text))
	}
	for _, n := range []int{7, -3} {
		tell(p, "level "+strconv.Itoa(n))
	}
	all := e.scrape()
	for _, c := range []struct {
		kind, series string
		want         map[string]float64
	}{
		{"counter of events", "said_total", map[string]float64{`{text="a"}`: 2, `{text="bb"}`: 1, `{text="cccc"}`: 1, `{text="aaaaa"}`: 1}},
		{"counter of a value", "said_bytes_total", map[string]float64{
			fmt.Sprintf(`{executable=%q,initial="true"}`, name): 7, fmt.Sprintf(`{executable=%q,initial="false"}`, name): 6,
		}},
		{"histogram", "said_size_bytes_bucket", map[string]float64{`{le="1.0"}`: 2, `{le="2.5"}`: 3, `{le="4.0"}`: 4, `{le="+Inf"}`: 5}},
		{"sum of a histogram", "said_size_bytes_sum", map[string]float64{"": 13}},
		{"gauge", "level", map[string]float64{"": -1.5}},
		{"counter of several probes", "long_total", map[string]float64{`{probe="said"}`: 2}},
		{"of a user and a program", "root_total", map[string]float64{"": 5}},
		{"of another user", "nobody_total", map[string]float64{"": 0}},
	} {
		t.Run(c.kind, func(t *testing.T) { require.Equal(t, c.want, floats(series(all, c.series))) })
	}
	t.Run("control groups", func(t *testing.T) {
		testenv.NeedsGroups(t)
		require.Equal(t, []float64{5, 0}, []float64{all["group_total"], all["no_group_total"]})
	})
	t.Run("own metrics", func(t *testing.T) {
		require.EqualValues(t, 5, all[`stapsdt_events_total{metric="said_total"}`])
		require.Positive(t, all[`stapsdt_errors_total{metric="long_total"}`], "level has no bytes")
	})
	t.Run("after the process", func(t *testing.T) {
		p.Signal(os.Kill)
		require.Eventually(t, func() bool { return len(series(e.scrape(), "level")) == 0 }, testenv.Patience, 10*time.Millisecond, "a level is of a process")
		all := e.scrape()
		require.Len(t, series(all, "said_total"), 4, "a counter stays")
		require.Empty(t, series(all, "depth"))
		require.EqualValues(t, 2, all[`stapsdt_events_total{metric="depth"}`], "one of which had no room")
		require.Zero(t, all["stapsdt_export_collect_failures_total"])
	})
	t.Run("exit", func(t *testing.T) {
		interrupt(t, e)
	})
}

// floats writes the bounds of a histogram's buckets as floating-point numbers, and leaves other
// series as they are.
func floats(series map[string]float64) map[string]float64 {
	all := map[string]float64{}
	for name, value := range series {
		if bound, ok := strings.CutPrefix(name, `{le="`); ok && !strings.ContainsAny(bound, ".I") {
			name = `{le="` + strings.TrimSuffix(bound, `"}`) + `.0"}`
		}
		all[name] = value
	}
	return all
}

// TestExportOperations: what has begun and not ended is in flight, and what has ended took its
// time, by the id of the span.
func TestExportOperations(t *testing.T) {
	t.Parallel()
	p, e := startExported(t, `
metrics:
  - {name: jobs_in_flight, start: "PROVIDER:job__start", end: "PROVIDER:job__end", in_flight: true, by: [name], labels: []}
  - {name: job_seconds, start: "PROVIDER:job__start", end: "PROVIDER:job__end", duration: true, by: [name, {failed: 'error != ""'}], labels: []}
  - {name: told_seconds, probe: "PROVIDER:job__end", histogram: nanoseconds, unit: seconds, buckets: native, labels: []}
  - {name: slow_total, probe: "PROVIDER:job__end", counter: 1, where: elapsed >= 1ms && start.priority > 0, by: [{job: name}], labels: []}
  - {name: slower_total, probe: "PROVIDER:job__end", counter: 1, where: elapsed > 1h, labels: []}
  - {name: elapsed_seconds, probe: "PROVIDER:job__end", histogram: elapsed, unit: seconds, buckets: native, by: [{job: start.name}], labels: []}
`)
	e.waitForSites("jobs_in_flight", 2)
	e.waitForSites("elapsed_seconds", 2)
	start := time.Now()
	tell(p, "job 3")
	took := time.Since(start).Seconds()
	tell(p, "begin 4")
	all := e.scrape()
	require.Equal(t, map[string]float64{`{name="begun"}`: 4, `{name="outer"}`: 0, `{name="inner"}`: 0}, series(all, "jobs_in_flight"), "a process of each series lives")
	require.Equal(t, map[string]float64{`{failed="true",name="outer"}`: 3, `{failed="false",name="inner"}`: 3}, series(all, "job_seconds_count"))
	require.EqualValues(t, 6, all["told_seconds_count"])
	require.Equal(t, map[string]float64{`{job="inner"}`: 3}, series(all, "slow_total"))
	require.Equal(t, map[string]float64{"": 0}, series(all, "slower_total"))
	require.Equal(t, map[string]float64{`{job="inner"}`: 3, `{job="outer"}`: 3}, series(all, "elapsed_seconds_count"))
	for sum, jobs := range map[string]float64{
		`job_seconds_sum{failed="false",name="inner"}`: 3, `job_seconds_sum{failed="true",name="outer"}`: 3, "told_seconds_sum": 6,
	} { // each takes a millisecond at least, and at most two of them are open at a time
		require.GreaterOrEqual(t, all[sum], jobs*.001, sum)
		require.LessOrEqual(t, all[sum], jobs/3*took, sum)
	}
	p.Signal(os.Kill)
	require.Eventually(t, func() bool { return len(series(e.scrape(), "jobs_in_flight")) == 0 }, testenv.Patience, 10*time.Millisecond)
}

// agreeing are rules that count the same events in ways of their own.
const agreeing = `
metrics:
  - {name: agree_total, probe: "PROVIDER:said", counter: 1, labels: []}
  - {name: agree_text_total, probe: "PROVIDER:said", counter: 1, by: [text], labels: []}
  - {name: agree_size_bytes, probe: "PROVIDER:said", histogram: bytes, unit: bytes, buckets: [1, 4], labels: []}
  - {name: agree_where_total, probe: "PROVIDER:said", counter: 1, where: bytes == 2, labels: [executable]}
`

// totalsOf returns the number of events that each of the rules has counted.
func totalsOf(e *exporter) map[string]float64 {
	all := e.scrape()
	totals := map[string]float64{}
	for metric, series := range map[string]map[string]float64{
		"total": series(all, "agree_total"), "text": series(all, "agree_text_total"),
		"size": series(all, "agree_size_bytes_count"), "where": series(all, "agree_where_total"),
	} {
		for _, value := range series {
			totals[metric] += value
		}
	}
	return totals
}

// TestExportAgreement: rules of the same probe that are added at the same time agree from the first event on, while the program fires. Those
// that stay lose no event, and those that go do not disturb them.
func TestExportAgreement(t *testing.T) {
	t.Parallel()
	const stay = "  - {name: stay_total, probe: 'PROVIDER:said', counter: 1, labels: []}\n"
	p, e := startExported(t, "metrics:\n"+stay+strings.ReplaceAll(stay, "stay", "gone"))
	e.waitForSites("stay_total", 1)
	tell(p, "run 2")
	require.Eventually(t, func() bool { return e.scrape()["stay_total"] > 0 }, testenv.Patience, 5*time.Millisecond)
	e.writeRules(agreeing + stay)
	require.Eventually(t, func() bool {
		totals := totalsOf(e)
		return len(totals) == 4 && slices.Min(slices.Collect(maps.Values(totals))) > 0
	}, testenv.Patience, 5*time.Millisecond)
	p.Say("halt")
	fired := tracetest.Must(strconv.ParseFloat(p.Expect("fired ", testenv.Patience), 64))(t)
	require.Equal(t, fired, e.scrape()["stay_total"])
	totals := totalsOf(e)
	t.Logf("%v of %v were fired after the rules were read again", totals["total"], fired)
	require.Len(t, totals, 4)
	for metric, n := range totals {
		require.Equal(t, totals["total"], n, metric)
	}
	require.NotContains(t, e.scrape(), "gone_total")
	e.writeRules(agreeing)
	e.waitForMessage("read .*: 4 metrics")
	require.NotContains(t, e.scrape(), "stay_total")
	e.waitForSites("agree_total", 1)
}

// TestExportSpans: spans are sent with what their probes say, and each has the parent and the
// trace that it belongs to.
func TestExportSpans(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	const provider = "export_spans"
	p := startExportee(t, provider)
	received := make(chan *tracepb.Span, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			for _, s := range spansOf(t, r) {
				received <- s
			}
		}
	}))
	t.Cleanup(collector.Close)
	e := startExporter(t, provider, "spans:\n  - {probe: 'PROVIDER:job', where: 'rows < 5 && elapsed >= 1ms && start.priority > -5'}\n"+
		"metrics:\n  - {name: job_seconds, probe: 'PROVIDER:job__end', histogram: nanoseconds, unit: seconds, where: 'rows < 5', labels: []}\n", "--otlp", collector.URL)
	e.waitForSites(provider+":job", 2)
	e.waitForSites("job_seconds", 1)
	before := time.Now()
	tell(p, "job 6")
	exemplars := e.exemplars()
	require.NotEmpty(t, exemplars)
	e.Signal(os.Interrupt) // what was fired is sent
	require.NoError(t, e.Wait(testenv.Patience))
	close(received)
	outer, inner := map[string]*tracepb.Span{}, []*tracepb.Span{}
	for s := range received {
		delete(exemplars, hex.EncodeToString(s.SpanId))
		require.Equal(t, "job", s.Name)
		if len(s.ParentSpanId) == 0 {
			outer[string(s.SpanId)] = s
		} else {
			inner = append(inner, s)
		}
	}
	require.Empty(t, exemplars, "each is one of the spans")
	require.Len(t, outer, 6)
	require.Len(t, inner, 5, "the last one has too many rows")
	traces := map[string]bool{}
	for _, s := range inner {
		parent := outer[string(s.ParentSpanId)]
		require.NotNil(t, parent)
		require.Equal(t, parent.TraceId, s.TraceId)
		traces[string(s.TraceId)] = true
		require.LessOrEqual(t, parent.StartTimeUnixNano, s.StartTimeUnixNano)
		require.GreaterOrEqual(t, parent.EndTimeUnixNano, s.EndTimeUnixNano)
		require.GreaterOrEqual(t, s.EndTimeUnixNano-s.StartTimeUnixNano, uint64(time.Millisecond))
		require.WithinRange(t, time.Unix(0, int64(s.EndTimeUnixNano)), before, time.Now())
		text := fmt.Sprint(s.Attributes)
		for _, attribute := range []string{`name`, `inner`, `priority`, `rows`, `ratio`, `last`} {
			require.Contains(t, text, attribute)
		}
		require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, parent.Status.Code)
		require.Equal(t, "no luck", parent.Status.Message)
		require.NotEqual(t, tracepb.Status_STATUS_CODE_ERROR, s.Status.GetCode())
	}
	require.Len(t, traces, 5)
}

// exemplars returns the ids of the spans that the histograms name.
func (e *exporter) exemplars() map[string]bool {
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(`# \{span_id="([0-9a-f]{16})"\}`).FindAllStringSubmatch(e.body("application/openmetrics-text; version=1.0.0"), -1) {
		found[match[1]] = true
	}
	return found
}

// spansOf reads the spans of a request.
func spansOf(t *testing.T, r *http.Request) (all []*tracepb.Span) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body = tracetest.Must(gzip.NewReader(body))(t)
	}
	text := tracetest.Must(io.ReadAll(body))(t)
	var request tracecollector.ExportTraceServiceRequest
	require.NoError(t, proto.Unmarshal(text, &request))
	for _, resource := range request.ResourceSpans {
		require.Contains(t, fmt.Sprint(resource.Resource.Attributes), "service.name")
		for _, scope := range resource.ScopeSpans {
			all = append(all, scope.Spans...)
		}
	}
	return all
}
