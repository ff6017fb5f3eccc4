//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/stretchr/testify/require"
)

// TestExportExpiry: a series without events makes room for others, and goes on where it was if
// it returns. No event is lost.
func TestExportExpiry(t *testing.T) {
	t.Parallel()
	p := startExportee(t, "export_expiry")
	e := startExporter(t, "export_expiry", saidRule+`    series: 3
    expire: 5s
  - {name: size_bytes, probe: "PROVIDER:said", histogram: bytes, unit: bytes, buckets: [1, 4], by: [text], labels: [], series: 100, expire: 5s}
  - {name: latest_bytes, probe: "PROVIDER:said", gauge: bytes, by: [text], labels: [], series: 100, expire: 5s}
  - {name: stays_total, probe: "PROVIDER:said", counter: 1, by: [text], labels: [], expire: never}
`)
	e.waitForSites("stays_total", 1)
	said := map[string]float64{}
	say := func(texts ...string) {
		for _, text := range texts {
			tell(p, "say "+strconv.Quote(text))
			said[`{text="`+text+`"}`]++
		}
	}
	say("a", "bb", "bb", "ccccc", "d")
	require.Equal(t, map[string]float64{
		`{text="a"}`: 1, `{text="bb"}`: 2, `{text="ccccc"}`: 1, `{otel_metric_overflow="true"}`: 1,
	}, series(e.scrape(), "said_total"))
	e.waitForMessage(`said_total: 1 events had no room: all 3 series of a user are in use`)

	require.Eventually(t, func() bool {
		say("a") // stays, because it has events
		all := e.scrape()
		return len(series(all, "said_total")) == 2 && len(series(all, "size_bytes_count")) == 1 && len(series(all, "latest_bytes")) == 1
	}, testenv.Patience, 100*time.Millisecond)
	say("d", "d", "bb")
	all := e.scrape()
	require.Equal(t, map[string]float64{
		`{text="a"}`: said[`{text="a"}`], `{text="d"}`: 2, `{text="bb"}`: 3, `{otel_metric_overflow="true"}`: 1,
	}, series(all, "said_total"))
	delete(said, `{text="ccccc"}`)
	require.Equal(t, said, series(all, "size_bytes_count"))
	require.EqualValues(t, 6, all[`size_bytes_sum{text="bb"}`])
	require.EqualValues(t, 0, all[`size_bytes_bucket{text="bb",le="1"}`]+all[`size_bytes_bucket{text="bb",le="1.0"}`])
	require.EqualValues(t, 3, all[`size_bytes_bucket{text="bb",le="4"}`]+all[`size_bytes_bucket{text="bb",le="4.0"}`])
	said[`{text="ccccc"}`] = 1
	require.Equal(t, said, series(all, "stays_total"))
	sum := 0.0
	for _, n := range said {
		sum += n
	}
	for _, metric := range []string{"said_total", "size_bytes", "latest_bytes", "stays_total"} {
		require.Equal(t, sum, all[`stapsdt_events_total{metric="`+metric+`"}`], metric)
	}
}

// TestExportExpiryUnderFire: while series come, expire and return, every event is counted.
func TestExportExpiryUnderFire(t *testing.T) {
	t.Parallel()
	p := startExportee(t, "export_expiry_fire")
	e := startExporter(t, "export_expiry_fire", saidRule+"    expire: 1s\n")
	e.waitForSites("said_total", 1)
	fired := 0
	many := func(from, to int) {
		tell(p, fmt.Sprint("many ", from, " ", to))
		fired += to - from
	}
	for round := range 3 {
		half := 400 * (round % 2)
		many(half, half+400)
		require.Eventually(t, func() bool { // meanwhile the other half has events, and this one expires
			many(400-half, 800-half)
			_, ok := e.scrape()[fmt.Sprintf(`said_total{text="%d"}`, half)]
			return !ok
		}, testenv.Patience, time.Millisecond)
	}
	require.EqualValues(t, fired, e.scrape()[`stapsdt_events_total{metric="said_total"}`])
}
