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
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// exporter is the command export.
type exporter struct {
	*tracetest.Process
	t     testing.TB
	rules string // the file
	url   string
}

// exports starts the exporter with rules, in which PROVIDER is the provider.
func exports(t testing.TB, provider, rules string) *exporter {
	t.Helper()
	testenv.NeedsRoot(t)
	e := &exporter{t: t, rules: filepath.Join(t.TempDir(), "rules.yaml")}
	e.writes(provider, rules)
	e.Process = tracetest.Command(t, exec.Command(stapsdt(t), "export", "-c", e.rules, "--listen", "localhost:0"))
	e.url = e.says(`metrics are at (http://\S+)`)[1]
	return e
}

// says waits for what the exporter says to people, and returns the groups of the pattern.
func (e *exporter) says(pattern string) (groups []string) {
	e.t.Helper()
	re := regexp.MustCompile(pattern)
	require.Eventually(e.t, func() bool {
		groups = re.FindStringSubmatch(e.Dump())
		return groups != nil
	}, patience, 10*time.Millisecond, pattern)
	return groups
}

// writes replaces the rules.
func (e *exporter) writes(provider, rules string) {
	e.t.Helper()
	text := strings.ReplaceAll(rules, "PROVIDER", provider)
	temp := e.rules + ".new"
	require.NoError(e.t, os.WriteFile(temp, []byte(text), 0o600))
	require.NoError(e.t, os.Rename(temp, e.rules))
}

// scrape returns the values of the series, by what is before them in a line.
func (e *exporter) scrape() map[string]float64 {
	e.t.Helper()
	response, err := http.Get(e.url)
	require.NoError(e.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(e.t, err)
	require.Equal(e.t, http.StatusOK, response.StatusCode, string(body))
	values := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			value, err := strconv.ParseFloat(line[at+1:], 64)
			require.NoError(e.t, err, line)
			values[line[:at]] = value
		}
	}
	return values
}

// waits waits until the metric of a rule is attached to so many sites.
func (e *exporter) waits(metric string, sites float64) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("stapsdt_attached_sites{metric=%q}", metric), sites)
}

func (e *exporter) eventually(series string, value float64) {
	e.t.Helper()
	require.Eventually(e.t, func() bool { return e.scrape()[series] == value }, patience, 20*time.Millisecond, series)
}

// series returns what a metric has, of all that was scraped.
func series(all map[string]float64, metric string) map[string]float64 {
	found := map[string]float64{}
	for name, value := range all {
		if rest, ok := strings.CutPrefix(name, metric); ok && (rest == "" || rest[0] == '{') {
			found[rest] = value
		}
	}
	return found
}

// exportee starts the program whose probes are counted.
func exportee(t testing.TB, provider string, args ...string) *tracetest.Process {
	t.Helper()
	cmd := exec.Command(tracetest.Build(t, "exportee"), append([]string{provider}, args...)...)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir())
	p := tracetest.Command(t, cmd)
	if len(args) == 0 {
		p.Expect("ready", patience)
	}
	return p
}

const saidRule = `
metrics:
  - name: said_total
    probe: PROVIDER:said
    counter: 1
    by: [text]
    labels: []
`

// TestExport: each kind of metric is what was fired.
func TestExport(t *testing.T) {
	p := exportee(t, "export_kinds")
	e := exports(t, "export_kinds", saidRule+`
  - {name: said_bytes_total, probe: "PROVIDER:said", counter: bytes, unit: bytes, labels: [executable], by: [{initial: "strings.HasPrefix(text, \"a\")"}]}
  - {name: said_size_bytes, probe: "PROVIDER:said", histogram: bytes, unit: bytes, buckets: [1, 2.5, 4], labels: []}
  - {name: level, probe: "PROVIDER:level", gauge: depth, scale: 0.5, labels: []}
  - {name: long_total, probe: "PROVIDER:*", counter: 1, where: bytes > 2, labels: []}
`)
	e.waits("said_total", 1)
	for _, text := range []string{"a", "bb", "a", "cccc", "aaaaa"} {
		does(p, "say "+strconv.Quote(text))
	}
	for _, n := range []int{7, -3} {
		does(p, "level "+strconv.Itoa(n))
	}
	all := e.scrape()
	require.Equal(t, map[string]float64{`{text="a"}`: 2, `{text="bb"}`: 1, `{text="cccc"}`: 1, `{text="aaaaa"}`: 1}, series(all, "said_total"))
	name := filepath.Base(tracetest.Build(t, "exportee"))
	require.Equal(t, map[string]float64{
		fmt.Sprintf(`{executable=%q,initial="true"}`, name): 7, fmt.Sprintf(`{executable=%q,initial="false"}`, name): 6,
	}, series(all, "said_bytes_total"))
	require.Equal(t, map[string]float64{`{le="1.0"}`: 2, `{le="2.5"}`: 3, `{le="4.0"}`: 4, `{le="+Inf"}`: 5}, floats(series(all, "said_size_bytes_bucket")))
	require.Equal(t, map[string]float64{"": 13}, series(all, "said_size_bytes_sum"))
	require.Equal(t, map[string]float64{"": -1.5}, series(all, "level"))
	require.Equal(t, map[string]float64{`{probe="said"}`: 2}, series(all, "long_total"))
	require.EqualValues(t, 5, all[`stapsdt_events_total{metric="said_total"}`])
	require.Positive(t, all[`stapsdt_errors_total{metric="long_total"}`], "level has no bytes")

	p.Signal(os.Kill) // the level of a process that has ended is none
	require.Eventually(t, func() bool { return len(series(e.scrape(), "level")) == 0 }, patience, 10*time.Millisecond)
	require.Len(t, series(e.scrape(), "said_total"), 4)
	e.Signal(os.Interrupt)
	require.NoError(t, e.Wait(patience))
}

// floats writes the bounds of buckets in one way.
func floats(buckets map[string]float64) map[string]float64 {
	all := map[string]float64{}
	for name, value := range buckets {
		bound := strings.TrimSuffix(strings.TrimPrefix(name, `{le="`), `"}`)
		if !strings.ContainsAny(bound, ".I") {
			bound += ".0"
		}
		all[`{le="`+bound+`"}`] = value
	}
	return all
}

// TestExportCounts: counters are exact in a storm, across restarts of the program, and across
// reloads of the rules.
func TestExportCounts(t *testing.T) {
	const provider = "export_counts"
	e := exports(t, provider, saidRule)
	want := map[string]float64{}
	for round := range 3 {
		p := exportee(t, provider)
		e.waits("said_total", float64(round+1)) // a restart has the same file only in the same directory
		does(p, "storm 3000 4")
		for i := range 3 {
			want[fmt.Sprintf("{text=%q}", "storm"+strconv.Itoa(i))] += 4000
		}
		require.Equal(t, want, series(e.scrape(), "said_total"))
		p.Signal(os.Kill)
		switch round {
		case 0:
			e.writes(provider, saidRule+"  - {name: other_total, probe: 'PROVIDER:said', counter: 1, labels: []}\n")
			e.says(regexp.QuoteMeta("read "+e.rules) + ": 2 metrics")
		case 1:
			e.writes(provider, saidRule+"\n  - wrong\n")
			e.Signal(syscall.SIGHUP)
			e.says(regexp.QuoteMeta(e.rules) + `:\d+:\d+: .*the rules in force stay`)
			require.Zero(t, e.scrape()["stapsdt_rules_reload_success"])
		}
	}
	require.Equal(t, map[string]float64{"": 24000}, series(e.scrape(), "other_total"))
	e.writes(provider, saidRule)
	e.eventually("stapsdt_rules_reload_success", 1)
	require.Empty(t, series(e.scrape(), "other_total"))
	require.Equal(t, want, series(e.scrape(), "said_total"))
}

// TestExportOverflow: what is beyond the bound of a metric is counted apart.
func TestExportOverflow(t *testing.T) {
	p := exportee(t, "export_overflow")
	e := exports(t, "export_overflow", saidRule+`    series: 10
  - {name: bytes, probe: "PROVIDER:said", histogram: bytes, unit: bytes, buckets: [1, 10], by: [text], labels: [], series: 2}
`)
	e.waits("said_total", 1)
	does(p, "many 0 50")
	does(p, "many 0 50")
	all := e.scrape()
	said := series(all, "said_total")
	require.Len(t, said, 11)
	require.EqualValues(t, 80, said[`{otel_metric_overflow="true"}`])
	delete(said, `{otel_metric_overflow="true"}`)
	for name, value := range said {
		require.EqualValues(t, 2, value, name)
	}
	require.EqualValues(t, 96, all[`bytes_count{otel_metric_overflow="true"}`])
	require.EqualValues(t, 96, all[`bytes_sum{otel_metric_overflow="true"}`])
}

// TestExportHostile: no text of a program makes a scrape fail, or looks like another series.
func TestExportHostile(t *testing.T) {
	p := exportee(t, "export_hostile")
	e := exports(t, "export_hostile", saidRule)
	e.waits("said_total", 1)
	for _, text := range []string{
		"\n# HELP said_total lies", `"} 5`, `\`, "\xff\xfe", "\xff\xfd", strings.Repeat("x", 4096), "", "ü\x1b[31m", "{}", "a\x00b",
	} {
		does(p, "say "+strconv.Quote(text))
	}
	said := series(e.scrape(), "said_total")
	sum := 0.0
	for _, value := range said {
		sum += value
	}
	require.EqualValues(t, 10, sum, said)
	require.Contains(t, said, fmt.Sprintf("{text=%q}", strings.Repeat("x", 64)))
	require.Contains(t, said, `{text="\n# HELP said_total lies"}`)
}

// TestExportSelect: only the processes that a rule selects are counted.
func TestExportSelect(t *testing.T) {
	const provider = "export_select"
	p := exportee(t, provider)
	name := filepath.Base(tracetest.Build(t, "exportee"))
	rule := "  - {name: %s_total, probe: 'PROVIDER:said', counter: 1, labels: [], %s}\n"
	all := "metrics:\n"
	selections := map[string]struct {
		is   string
		want float64
	}{
		"user":   {"user: root", 1},
		"number": {"user: 0", 1},
		"nobody": {"user: nobody", 0},
		"name":   {"executable: " + name, 1},
		"begins": {"executable: " + name[:1] + "*", 1},
		"other":  {"executable: no" + name, 0},
		"cgroup": {"cgroup: /*", 1},
		"none":   {"cgroup: /no-such-group/*", 0},
	}
	for _, what := range slices.Sorted(maps.Keys(selections)) {
		all += fmt.Sprintf(rule, what, selections[what].is)
	}
	e := exports(t, provider, all)
	e.waits("user_total", 1)
	does(p, `say "x"`)
	scraped := e.scrape()
	for what, selection := range selections {
		if what == "cgroup" && len(cgroups(t)) == 0 {
			continue // there are no control groups of version 2
		}
		require.Equal(t, selection.want, scraped[what+"_total"], what)
	}
}

// TestExportOperations: what has begun and not ended is in flight, and what has ended took its
// time, by the id of the span.
func TestExportOperations(t *testing.T) {
	const provider = "export_operations"
	p := exportee(t, provider)
	e := exports(t, provider, `
metrics:
  - {name: jobs_in_flight, start: "PROVIDER:job__start", end: "PROVIDER:job__end", in_flight: true, by: [name], labels: []}
  - {name: job_seconds, start: "PROVIDER:job__start", end: "PROVIDER:job__end", duration: true, by: [name, {failed: 'error != ""'}], labels: []}
  - {name: told_seconds, probe: "PROVIDER:job__end", histogram: nanoseconds, unit: seconds, buckets: native, labels: []}
`)
	e.waits("jobs_in_flight", 2)
	does(p, "job 3")
	does(p, "begin 4")
	all := e.scrape()
	require.Equal(t, map[string]float64{`{name="begun"}`: 4}, series(all, "jobs_in_flight"))
	require.Equal(t, map[string]float64{`{failed="true",name="outer"}`: 3, `{failed="false",name="inner"}`: 3}, series(all, "job_seconds_count"))
	require.InDelta(t, .003, all[`job_seconds_sum{failed="false",name="inner"}`], 2)
	require.GreaterOrEqual(t, all[`job_seconds_sum{failed="true",name="outer"}`], .003)
	require.EqualValues(t, 6, all["told_seconds_count"])
	// The times between are those that the program tells, but for the two reads of the clock.
	ours := all[`job_seconds_sum{failed="false",name="inner"}`] + all[`job_seconds_sum{failed="true",name="outer"}`]
	require.InEpsilon(t, all["told_seconds_sum"], ours, .5)
	p.Signal(os.Kill)
	require.Eventually(t, func() bool { return len(series(e.scrape(), "jobs_in_flight")) == 0 }, patience, 10*time.Millisecond)
}

// TestExportChurn: of processes that come and go within a second, with probes that have been
// found, every event is counted.
func TestExportChurn(t *testing.T) {
	const provider, processes, fires = "export_churn", 100, 20
	e := exports(t, provider, saidRule)
	p := exportee(t, provider)
	e.waits("said_total", 1)
	directory := imageDirectory(t, p)
	program := tracetest.Build(t, "exportee")
	running := make([]*exec.Cmd, processes)
	for i := range running {
		running[i] = exec.Command(program, provider, strconv.Itoa(fires))
		running[i].Env = append(os.Environ(), "STAPSDT_DIR="+directory)
		require.NoError(t, running[i].Start())
	}
	for _, cmd := range running {
		require.NoError(t, cmd.Wait())
	}
	require.Equal(t, map[string]float64{`{text="once"}`: processes * fires}, series(e.scrape(), "said_total"))
}

// imageDirectory is where the images of a process are.
func imageDirectory(t *testing.T, p *tracetest.Process) string {
	environment, err := os.ReadFile("/proc/" + pid(p) + "/environ")
	require.NoError(t, err)
	directory := ""
	for entry := range strings.SplitSeq(string(environment), "\x00") {
		if value, ok := strings.CutPrefix(entry, "STAPSDT_DIR="); ok {
			directory = value
		}
	}
	require.NotEmpty(t, directory)
	return directory
}

// TestExportKilled: an exporter that is killed leaves nothing attached.
func TestExportKilled(t *testing.T) {
	p := goSubject(t)
	e := exports(t, "subject", "metrics:\n  - {name: fires_total, probe: 'PROVIDER:tick', counter: 1, where: pid == "+pid(p)+", labels: []}\n")
	require.Eventually(t, func() bool { return traced(t, p) }, patience, 10*time.Millisecond)
	e.Signal(os.Kill)
	require.Error(t, e.Wait(patience))
	require.Eventually(t, func() bool { return !traced(t, p) }, patience, 10*time.Millisecond)
	does(p, "storm 10 1")
}

// TestExportFootprint: the exporter is small, and answers soon.
func TestExportFootprint(t *testing.T) {
	const provider = "export_footprint"
	p := exportee(t, provider)
	e := exports(t, provider, saidRule+"    series: 1000\n")
	e.waits("said_total", 1)
	does(p, "many 0 1000")
	for range 10 {
		require.Len(t, series(e.scrape(), "said_total"), 1000)
	}
	require.LessOrEqual(t, e.scrape()["process_resident_memory_bytes"], 30e6)
	e.writes(provider, saidRule+"    series: 10000\n")
	e.says("read .*: 1 metric,")
	e.waits("said_total", 1)
	does(p, "many 0 10000")
	require.Eventually(t, func() bool { // a busy machine answers late now and then
		start := time.Now()
		response, err := http.Get(e.url)
		require.NoError(t, err)
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		return time.Since(start) < 100*time.Millisecond
	}, patience, time.Millisecond)
	require.Len(t, series(e.scrape(), "said_total"), 10000)
}

// TestExportSpans: spans are sent with what their probes say, and each has the parent and the
// trace that it belongs to.
func TestExportSpans(t *testing.T) {
	testenv.NeedsRoot(t)
	const provider = "export_spans"
	p := exportee(t, provider)
	received := make(chan *tracepb.Span, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			for _, s := range spansOf(t, r) {
				received <- s
			}
		}
	}))
	t.Cleanup(collector.Close)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("spans:\n  - {probe: '"+provider+":job', where: 'rows < 5'}\n"+
		"metrics:\n  - {name: job_seconds, probe: '"+provider+":job__end', histogram: nanoseconds, unit: seconds, where: 'rows < 5', labels: []}\n"), 0o600))
	e := &exporter{t: t, Process: tracetest.Command(t, exec.Command(stapsdt(t), "export", "-c", rules, "--listen", "localhost:0", "--otlp", collector.URL))}
	e.url = e.says(`metrics are at (http://\S+)`)[1]
	e.waits(provider+":job", 2)
	e.waits("job_seconds", 1)
	does(p, "job 6")
	exemplars := e.exemplars()
	require.NotEmpty(t, exemplars)
	e.Signal(os.Interrupt) // what was fired is sent
	require.NoError(t, e.Wait(patience))
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
		require.InDelta(t, time.Now().UnixNano(), s.EndTimeUnixNano, float64(time.Minute))
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
	request, err := http.NewRequest(http.MethodGet, e.url, nil)
	require.NoError(e.t, err)
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	response, err := http.DefaultClient.Do(request)
	require.NoError(e.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(e.t, err)
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(`# \{span_id="([0-9a-f]{16})"\}`).FindAllStringSubmatch(string(text), -1) {
		found[match[1]] = true
	}
	return found
}

// spansOf reads the spans of a request.
func spansOf(t *testing.T, r *http.Request) (all []*tracepb.Span) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		require.NoError(t, err)
		body = unzipped
	}
	text, err := io.ReadAll(body)
	require.NoError(t, err)
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

// TestCostOfExporting: a rule costs the program no more than count does.
func TestCostOfExporting(t *testing.T) {
	testenv.LongOnce(t, "it measures")
	p := goSubject(t)
	const fires = 50_000
	storm := func() time.Duration {
		least := time.Hour
		for range 10 {
			start := time.Now()
			does(p, fmt.Sprintf("storm %d 1", fires))
			least = min(least, time.Since(start)/fires)
		}
		return least
	}
	for _, c := range []struct {
		rule  string
		count []string
	}{
		{"counter: 1, labels: []", nil},
		{"counter: 1, by: [arg1], labels: []", []string{"--by", "arg1"}},
		{"counter: 1, by: [arg1]", []string{"--by", "arg1,executable,cgroup"}},
	} {
		var ours, theirs []time.Duration
		enough := func() bool { return len(ours) > 0 && float64(slices.Min(ours)) <= 1.1*float64(slices.Min(theirs)) }
		for len(ours) < 15 && !enough() {
			e := exports(t, "subject", "metrics:\n  - {name: fires_total, probe: 'PROVIDER:tick', "+c.rule+"}\n")
			require.Eventually(t, func() bool { return traced(t, p) }, patience, 10*time.Millisecond)
			ours = append(ours, storm())
			e.Signal(os.Interrupt)
			require.NoError(t, e.Wait(patience))
			tr := traces(t, p, slices.Concat([]string{"count", "-a", "subject:tick"}, c.count)...)
			theirs = append(theirs, storm())
			tr.interrupts()
		}
		t.Logf("%s: %v, count %v", c.rule, ours, theirs)
		require.True(t, enough(), c.rule)
	}
}
