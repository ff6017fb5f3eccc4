//go:build linux && (amd64 || arm64)

package fleet

import (
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/stretchr/testify/require"
)

// TestPrometheus: PromQL gives what was fired, also what was fired while Prometheus was gone.
func TestPrometheus(t *testing.T) {
	needs(t, "it starts Prometheus")
	const provider = "fleet_prometheus"
	program := fires(t, provider)
	e := exports(t, provider, rules, "localhost:0")
	p := StartPrometheus(t, e.addr)
	p.Gives(attached, "sum by (metric) (stapsdt_attached_sites)")
	does(program, `say "a"`, `say "bb"`, `say "a"`, `say "two\nlines"`, "level -7", "job 5", "begin 3")
	p.Gives(map[string]float64{`{text="a"}`: 2, `{text="bb"}`: 1, `{text="two\nlines"}`: 1}, "sum by (text) (said_total)")
	p.Gives(map[string]float64{`{le="1.0"}`: 2, `{le="2.5"}`: 3, `{le="4.0"}`: 3, `{le="+Inf"}`: 4}, "sum by (le) (said_size_bytes_bucket)")
	for expr, want := range map[string]float64{
		"sum(said_size_bytes_sum)": 13, "sum(level)": -7, "sum(jobs_in_flight)": 3, "sum(job_seconds_count)": 10,
		"sum(histogram_count(job_native_seconds))":                  10,
		"sum(histogram_sum(job_native_seconds) > bool 0.010)":       1,
		"histogram_fraction(0.0001, 1000, sum(job_native_seconds))": 1,
		"sum(stapsdt_lost_events_total)":                            0,
		"sum(stapsdt_export_invalid_series_total)":                  0,
		"sum(stapsdt_export_collect_failures_total)":                0,
		"sum(process_resident_memory_bytes < bool 1e9)":             1,
	} {
		p.Gives(map[string]float64{"{}": want}, expr)
	}
	requireExemplars(t, p)

	p.Stop()
	does(program, `say "a"`, `say "while it was gone"`)
	p.Start()
	p.Gives(map[string]float64{`{text="a"}`: 3, `{text="bb"}`: 1, `{text="two\nlines"}`: 1, `{text="while it was gone"}`: 1}, "sum by (text) (said_total)")

	e.Signal(os.Interrupt)
	require.NoError(t, e.Wait(testenv.Patience))
	p.Gives(map[string]float64{"{}": 0}, "sum(up)")
}

// requireExemplars: an observation of a span has its id.
func requireExemplars(t *testing.T, p *Prometheus) {
	t.Helper()
	for _, metric := range []string{"job_seconds_bucket", "job_native_seconds"} {
		var data []struct {
			Exemplars []struct {
				Labels map[string]string
				Value  string
			}
		}
		now := time.Now()
		p.Ask("query_exemplars", url.Values{
			"query": {metric}, "start": {strconv.FormatInt(now.Add(-time.Hour).Unix(), 10)}, "end": {strconv.FormatInt(now.Add(time.Hour).Unix(), 10)},
		}, &data)
		require.NotEmpty(t, data, metric)
		for _, series := range data {
			require.NotEmpty(t, series.Exemplars)
			for _, e := range series.Exemplars {
				require.Regexp(t, "^[0-9a-f]{16}$", e.Labels["span_id"])
				value, err := strconv.ParseFloat(e.Value, 64)
				require.NoError(t, err)
				require.Greater(t, value, .001)
			}
		}
	}
}
