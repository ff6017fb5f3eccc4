//go:build linux

package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func parsed(t *testing.T, text string) *File {
	t.Helper()
	file, err := Parse("rules.yaml", []byte(text))
	require.NoError(t, err)
	return file
}

// everything has each key at least once.
const everything = `
metrics:
  - name: shop_request_seconds
    help: Time to serve a request.
    probe: shop:request__end
    histogram: nanoseconds
    unit: seconds
    by: [method, route, {class: status / 100}]
    where: status >= 500 && strings.HasPrefix(route, "/api")
  - &errors
    name: shop_errors_total
    probe: '*:*__error'
    counter: 1
    labels: []
    series: 10000
    expire: 1h30m
    executable: shop-*
    cgroup: "/system.slice/*"
    user: 1000
  - {name: shop_sent_bytes_total, probe: "shop:sent", counter: kib, scale: 1024, unit: bytes, labels: [container, container_id]}
  - {name: shop_depth, probe: "shop:queue", gauge: depth}
  - {name: shop_size_bytes, probe: "shop:sent", histogram: len(text), unit: bytes, buckets: native, series: 2000}
  - {name: shop_rows, probe: "shop:rows", histogram: arg2, buckets: [1, 2.5, 1e3], expire: never}
  - {name: shop_query_seconds, start: "shop:query__start", end: "shop:query__end", duration: true}
  - name: shop_queries_in_flight
    start: shop:begin
    end: shop:done
    key: goroutine
    in_flight: true
budget: 0.5%
spans:
  - probe: shop:request
    where: error != ""
    executable: shop
  - probe: shop:*
`

// TestEverything: each key of a file of rules reaches its field.
func TestEverything(t *testing.T) {
	got, err := Parse("rules.yaml", []byte(everything))
	require.NoError(t, err)
	both := ProcessLabels
	want := &File{
		Budget: 0.005,
		Metrics: []Metric{
			{Name: "shop_request_seconds", Help: "Time to serve a request.", Probe: querytest.Spec("shop:request__end"), Kind: Histogram, Value: "nanoseconds", Scale: 1e-9, Unit: "seconds",
				Bounds: defaultBounds["seconds"], By: []Label{{"method", "method"}, {"route", "route"}, {"class", "status / 100"}},
				Where: `status >= 500 && strings.HasPrefix(route, "/api")`, Process: both, Series: 1000, Expire: defaultExpire},
			{Name: "shop_errors_total", Help: "Events of *:*__error.", Probe: querytest.Spec("*:*__error"), Kind: Counter, Scale: 1,
				Select: Select{Executable: "shop-*", Cgroup: "/system.slice/*", User: "1000"}, Series: 10000, Expire: 90 * time.Minute},
			{Name: "shop_sent_bytes_total", Help: "Sum of kib of the events of shop:sent, in bytes.", Probe: querytest.Spec("shop:sent"), Kind: Counter, Value: "kib", Scale: 1024, Unit: "bytes", Process: []string{"container", "container_id"}, PodIDs: true, Series: 1000, Expire: defaultExpire},
			{Name: "shop_depth", Help: "Latest depth of shop:queue.", Probe: querytest.Spec("shop:queue"), Kind: Gauge, Value: "depth", Scale: 1, Process: both, Series: 1000, Expire: defaultExpire},
			{Name: "shop_size_bytes", Help: "Distribution of len(text) of shop:sent, in bytes.", Probe: querytest.Spec("shop:sent"), Kind: Histogram, Value: "len(text)", Scale: 1, Unit: "bytes", Native: true, Process: both, Series: 2000, Expire: defaultExpire},
			{Name: "shop_rows", Help: "Distribution of arg2 of shop:rows.", Probe: querytest.Spec("shop:rows"), Kind: Histogram, Value: "arg2", Scale: 1, Bounds: []float64{1, 2.5, 1000}, Process: both, Series: 1000},
			{Name: "shop_query_seconds", Help: "Time from shop:query__start to shop:query__end, in seconds.", Start: querytest.Spec("shop:query__start"), End: querytest.Spec("shop:query__end"), Key: []string{"arg0"},
				Kind: Duration, Scale: 1e-9, Unit: "seconds", Bounds: defaultBounds["seconds"], Process: both, Series: 1000, Expire: defaultExpire},
			{Name: "shop_queries_in_flight", Help: "Operations that shop:begin has started and shop:done has not ended.", Start: querytest.Spec("shop:begin"), End: querytest.Spec("shop:done"), Key: []string{"goroutine"},
				Kind: InFlight, Scale: 1, Process: both, Series: 1000},
		},
		Spans: []Span{{Probe: querytest.Spec("shop:request"), Where: `error != ""`, Select: Select{Executable: "shop"}}, {Probe: querytest.Spec("shop:*")}},
	}
	assert.Equal(t, want, got)
}

// TestScale: the name of a value says in what unit it is.
func TestScale(t *testing.T) {
	for value, want := range map[string]float64{
		"nanoseconds": 1e-9, "ns": 1e-9, "wait_ns": 1e-9, "wait_us": 1e-6, "elapsed_ms": 1e-3, "milliseconds": 1e-3, "seconds": 1,
		"elapsed": 0, "arg2": 0, "wait_ns / 2": 0, "bytes": 0, "columns": 0,
	} {
		assert.Equal(t, want, inferred(value, "seconds"), value)
	}
	for value, want := range map[string]float64{"bytes": 1, "sent_kibibytes": 1024, "size": 1, "len(text)": 1} {
		assert.Equal(t, want, inferred(value, "bytes"), value)
	}
}

// metric is a file with one metric of these keys.
func metric(keys string) string { return "metrics:\n- {" + keys + "}\n" }

// wrong are files with what is wrong in them, without the name of the file.
var wrong = []struct {
	text string
	errs []string
}{
	{"", []string{"1:1: there are no rules: give metrics or spans"}},
	{"# nothing\n", []string{"1:1: there are no rules: give metrics or spans"}},
	{"{}", []string{"1:1: there are no rules: give metrics or spans"}},
	{"- a\n", []string{"1:1: the file must be keys with values, of metrics, spans, budget"}},
	{"budget: 1%\n", []string{"1:1: there are no rules: give metrics or spans"}},
	{"budget: 1\n" + metric(`name: a, gauge: c, probe: "a:b"`), []string{`1:9: budget takes more than 0% and at most 100%, such as 1%, not "1"`}},
	{"metrics:\n", []string{"1:1: the key metrics has no value"}},
	{"metric: []\n", []string{`1:1: unknown key "metric"; the nearest is metrics`}},
	{"elephants: []\n", []string{`1:1: unknown key "elephants"; the keys are metrics, spans, budget`}},
	{"metrics: {}\n", []string{"1:10: metrics must be a list"}},
	{"metrics: [5]\n", []string{"1:11: a rule for a metric must be keys with values, of name,"}},
	{"metrics: []\n---\nmetrics: []\n", []string{"2:1: only one YAML document is allowed"}},
	{"metrics: []\nmetrics: []\n", []string{"2:1: duplicate key metrics (first on line 1)"}},
	{"metrics:\n  - name: [\n", []string{"3:1: this is not valid YAML: did not find expected node content"}},
	{"metrics: []\nspans: {a\n", []string{"2:1: this is not valid YAML: did not find expected ',' or '}'"}},
	{"metrics:\n- name: *x\n", []string{"2:9: this is not valid YAML: unknown anchor 'x' referenced"}},
	{"metrics: []\nspans: \"é\xff\"", []string{"2:10: this is not UTF-8"}},
	{"metrics: []\nspans: \x00", []string{"2:8: control character U+0000 is not allowed"}},
	{"metrics:\n  - name: x\n    probe: *:x\n", []string{"3:5: this is not valid YAML"}},
	{"metrics:\n\t- name: x\n", []string{"2:2: this is not valid YAML"}},
	{metric(`nam: a_total, probe: "a:b", counter: 1`), []string{`2:4: unknown key "nam"; the nearest is name`, "2:3: the metric needs a name"}},
	{metric(`name: a_total, probe: "a:b", counter: 1, hist: 1`), []string{`2:45: unknown key "hist"; the nearest is histogram`}},
	{metric(`name: a, name: b, probe: "a:b", gauge: c`), []string{"2:13: duplicate key name (first on line 2)"}},
	{metric(`name: "", probe: "a:b", gauge: c`), []string{"2:10: this is empty"}},
	{metric(`name: [a], probe: "a:b", gauge: c`), []string{"2:10: this must be a text"}},

	{metric(`name: a:b_total, probe: "a:b", counter: 1`), []string{`2:10: "a:b_total" is not a valid metric name`}},
	{metric(`name: 1a, probe: "a:b", gauge: c`), []string{`2:10: "1a" is not a valid metric name`}},
	{metric(`name: stapsdt_x, probe: "a:b", gauge: c`), []string{"2:10: names that begin with stapsdt_"}},
	{metric(`name: a, probe: "a:b", counter: 1`), []string{"2:10: the name of a counter must end in _total: use a_total"}},
	{metric(`name: a, probe: "a:b", counter: n, unit: bytes`), []string{"2:10: the name of a counter must end in _total: use a_bytes_total"}},
	{metric(`name: a_total, probe: "a:b", counter: n, unit: bytes`), []string{"2:10: the name of a metric in bytes must have the unit: use a_bytes_total"}},
	{metric(`name: a, probe: "a:b", histogram: ns, unit: seconds`), []string{"2:10: the name of a metric in seconds must have the unit: use a_seconds"}},
	{metric(`name: a_total, probe: "a:b", gauge: c`), []string{"2:10: a_total ends in _total, but is not a counter"}},
	{metric(`name: a_count, probe: "a:b", gauge: c`), []string{"2:10: a_count ends in _count, to which Prometheus gives another meaning"}},
	{"metrics:\n- {name: a, probe: \"a:b\", gauge: c}\n- {name: a, probe: \"a:b\", gauge: d}\n", []string{"3:10: duplicate metric name a (first on line 2)"}},

	{metric(`name: a, probe: "a:b"`), []string{"2:3: the metric needs one of counter, gauge"}},
	{metric(`name: a_total, probe: "a:b", counter: 1, gauge: c`), []string{"2:52: a metric has either counter or gauge, not both"}},
	{metric(`name: a_seconds, start: "a:b_start", end: "a:b_end", duration: false`), []string{"2:67: duration must be true or left out"}},
	{metric(`name: a, gauge: c`), []string{"2:3: a metric with gauge needs probe"}},
	{metric(`name: a, gauge: c, probe: "a:b", start: "a:c"`), []string{"2:44: a metric with gauge has no start: it needs probe"}},
	{metric(`name: a_seconds, duration: true, probe: "a:b", start: "a:c"`), []string{"2:3: a metric with duration needs start and end", "2:44: a metric with duration has no probe"}},
	{metric(`name: a, in_flight: true, start: "a:b", end: "a:c"`), []string{"2:3: no key pairs a start with its end"}},
	{metric(`name: a, in_flight: true, start: "a:b", end: "a:b"`), []string{"2:49: the start and the end are the same probe, a:b"}},
	{metric(`name: a, in_flight: true, start: "a:b", end: "a:c", key: "str(arg0), arg1"`), []string{"2:61: a key of several parts is a list: [str(arg0), arg1]"}},
	{metric(`name: a, in_flight: true, start: "a:b", end: "a:c", key: []`), []string{"2:61: the key has no parts"}},
	{metric(`name: a, in_flight: true, start: "a:b", end: "a:c", key: [b, f(x), [c], ""]`), []string{"2:65: undefined function: f", "2:71: this must be a text", "2:76: this is empty"}},
	{metric(`name: a, in_flight: true, start: "a:b", end: "a:c", key: {b: c}`), []string{"2:61: this must be a text"}},
	{metric(`name: a, gauge: c, probe: a`), []string{`2:30: "a" is not PROVIDER:PROBE`}},
	{metric(`name: a, gauge: c, probe: "/bin/a:b:c"`), []string{`2:30: "/bin/a:b:c" has a file`}},
	{metric(`name: a, gauge: c, probe: "a:[b"`), []string{`2:30: "[b" in "a:[b" is not a valid pattern`}},

	{metric(`name: a_seconds, gauge: c, probe: "a:b", unit: milliseconds`), []string{"2:51: metrics are in base units: give unit: seconds"}},
	{metric(`name: a, gauge: c, probe: "a:b", unit: MB`), []string{`2:43: "MB" is not a valid unit`}},
	{metric(`name: a, gauge: c, probe: "a:b", scale: 0`), []string{"2:44: scale must be a number above 0"}},
	{metric(`name: a, gauge: c, probe: "a:b", scale: x`), []string{"2:44: this must be a number"}},
	{metric(`name: a_total, counter: 1, probe: "a:b", unit: bytes`), []string{"2:51: this metric has no unit"}},
	{metric(`name: a_seconds, start: "a:b_start", end: "a:b_end", duration: true, unit: bytes`), []string{"2:79: the unit of a duration is seconds"}},
	{metric(`name: a_seconds, start: "a:b_start", end: "a:b_end", duration: true, scale: 2`), []string{"2:80: this metric has no scale"}},
	{metric(`name: a, histogram: c, probe: "a:b"`), []string{"2:3: buckets are missing"}},
	{metric(`name: a, gauge: c, probe: "a:b", buckets: native`), []string{"2:46: a metric with gauge has no buckets"}},
	{metric(`name: a, histogram: c, probe: "a:b", buckets: 5`), []string{"2:50: buckets must be native, or a list"}},
	{metric(`name: a, histogram: c, probe: "a:b", buckets: [1, 1, x, .inf]`), []string{"2:54: the bounds of buckets must rise, but 1 follows 1", "2:57: this must be a number", "2:60: this must be a number"}},
	{metric(`name: a, gauge: c, probe: "a:b", series: 10001`), []string{"2:45: series must be a number from 1 to 10000"}},
	{metric(`name: a, histogram: c, probe: "a:b", buckets: native, series: 2001`), []string{"2:66: series must be a number from 1 to 2000"}},
	{metric(`name: a, gauge: c, probe: "a:b", expire: 5`), []string{"2:45: expire must be a duration of at least 1s, such as 15m, or never"}},
	{metric(`name: a, gauge: c, probe: "a:b", expire: 10ms`), []string{"2:45: expire must be a duration of at least 1s"}},
	{metric(`name: a, start: "a:b_start", end: "a:b_end", in_flight: true, expire: 1h`), []string{"2:74: a metric with in_flight has no expire"}},

	{metric(`name: a, gauge: c ==, probe: "a:b"`), []string{"2:24: an operand is missing at the end in the expression c =="}},
	{metric(`name: a, gauge: c, probe: "a:b", where: 'a + f(x)'`), []string{"2:49: undefined function: f"}},
	{metric(`name: a, gauge: "c\u0020+ f(x)", probe: "a:b"`), []string{"2:20: undefined function: f"}},
	{metric(`name: a, gauge: c, probe: "a:b", by: x`), []string{"2:41: by must be a list"}},
	{metric(`name: a, gauge: c, probe: "a:b", by: [x, x, len(y), {z: "1 +"}, __a, 0, [b], {otel_metric_overflow: c}, executable]`), []string{
		"2:45: duplicate label x", `2:48: an expression needs a name: {name: "len(y)"}`, "2:64: an operand is missing at the end", "2:68: the label __a begins with __",
		`2:73: an expression needs a name: {name: "0"}`, "2:76: a label must be a name, or {name: expression}", "2:82: the label otel_metric_overflow is reserved", "2:108: duplicate label executable"}},
	{metric(`name: a, histogram: c, buckets: native, probe: "a:b", by: [le]`), []string{"2:63: the label le is reserved"}},
	{metric(`name: a, gauge: c, probe: "a:b", labels: [container, pid, container]`), []string{"2:57: labels may only be executable, namespace, workload, pod, container, container_id; for other labels use by: [pid]", "2:62: duplicate label container"}},
	{metric(`name: a, gauge: c, probe: "a:b", executable: "[", cgroup: "[", user: [1]`), []string{"2:73: this must be a text", `2:49: "[" has more than a *`, `2:62: "[" is not a valid pattern`}},
	{metric(`name: a, gauge: c, probe: "a:b", executable: /bin/a`), []string{`2:49: "/bin/a" has a directory`}},

	{metric(`name: a, gauge: c, probe: "a:*", by: [probe, provider]`), []string{"2:42: the label probe is set already, to the text that matches the pattern a:*"}},
	{metric(`name: a, gauge: c, probe: "a:b", executable: "*a-name-of-17-byte"`), []string{`2:49: "*a-name-of-17-byte" is too long`}},
	{"spans: [{}]", []string{"1:9: the rule needs a probe"}},
	{"spans: [{probe: 'a:b__start'}]", []string{"1:17: spans have the name of both of their probes: a:b, without __start"}},
	{"spans: [&a {probe: 'a:b'}, *a]", []string{"1:9: duplicate rule for the spans of a:b"}},
	{"spans: [{probe: 'a:b', by: [c]}]", []string{`1:24: unknown key "by"`}},
}

func TestWrong(t *testing.T) {
	for _, c := range wrong {
		file, err := Parse("f", []byte(c.text))
		if !assert.Error(t, err, c.text) || !assert.Nil(t, file, c.text) {
			continue
		}
		got := strings.Split(err.Error(), "\n")
		for i, want := range c.errs {
			if assert.Less(t, i, len(got), "%s:\n got %s\nwant %s", c.text, err, want) {
				assert.True(t, strings.HasPrefix(got[i], "f:"+want), "%s:\n got %s\nwant %s", c.text, err, want)
			}
		}
		assert.Len(t, got, len(c.errs), c.text)
	}
}

// TestManifest: the rules that are packaged are right.
func TestManifest(t *testing.T) {
	for _, directory := range []string{"", "sidecar"} {
		text, err := os.ReadFile(filepath.Join("../../../../../packaging/kubernetes", directory, "rules.yaml"))
		require.NoError(t, err)
		assert.Len(t, parsed(t, string(text)).Metrics, 1, directory)
	}
}

// TestGuide: the rules in the guide about functions are right.
func TestGuide(t *testing.T) {
	text, err := os.ReadFile("../../../../../docs/functions.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "```yaml\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	file := parsed(t, block)
	assert.Len(t, file.Metrics, 3)
	assert.Len(t, file.Spans, 1)
	assert.True(t, file.Functions())
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	_, err := Read(path)
	assert.True(t, os.IsNotExist(err), err)
	require.NoError(t, os.WriteFile(path, []byte("spans: [{probe: 'a:b'}]"), 0o600))
	file, err := Read(path)
	if assert.NoError(t, err) {
		assert.Len(t, file.Spans, 1, file)
	}
	require.NoError(t, os.WriteFile(path, make([]byte, maxFile+1), 0o600))
	_, err = Read(path)
	if assert.Error(t, err) {
		assert.True(t, strings.HasPrefix(err.Error(), path+":1:1: the file has more than"))
	}
}

// FuzzParse: no file crashes the parser, and every error says where it is.
func FuzzParse(f *testing.F) {
	f.Add([]byte(everything))
	for _, c := range wrong {
		f.Add([]byte(c.text))
	}
	position := regexp.MustCompile(`^f:([1-9]\d*):([1-9]\d*): .`)
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("f", text)
		require.NotEqual(t, err == nil, file == nil, "%v %v", file, err)
		if err == nil {
			return
		}
		for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
			require.True(t, position.MatchString(one.Error()), "%q: %v", text, one)
		}
	})
}

// TestManyErrors: a file that is something else altogether does not fill the log.
func TestManyErrors(t *testing.T) {
	_, err := Parse("r.yaml", []byte("metrics:\n"+strings.Repeat("- 1\n", 50)))
	lines := strings.Split(err.Error(), "\n")
	if assert.Len(t, lines, 21, err) {
		assert.Equal(t, "r.yaml: 30 more errors", lines[20], err)
	}
}

// TestReadPipe: nothing waits for a writer that may never come.
func TestReadPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	read := make(chan error, 1)
	go func() {
		_, err := Read(path)
		read <- err
	}()
	select {
	case err := <-read:
		assert.Error(t, err, "an empty pipe has rules")
	case <-time.After(testenv.Patience):
		require.FailNow(t, "Read waits")
	}
}

// TestKey: a key is an expression, or a list of its parts.
func TestKey(t *testing.T) {
	for text, want := range map[string][]string{
		`b`: {"b"}, `"strings.HasPrefix(a, \"b,c\")"`: {`strings.HasPrefix(a, "b,c")`}, `[str(arg0), arg1]`: {"str(arg0)", "arg1"},
		`["str(arg0)", thread]`: {"str(arg0)", "thread"}, `[goroutine]`: {"goroutine"},
	} {
		file := parsed(t, metric(`name: a, in_flight: true, start: "a:b", end: "a:c", key: `+text))
		assert.Equal(t, want, file.Metrics[0].Key, text)
	}
}
