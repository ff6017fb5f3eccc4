//go:build linux && (amd64 || arm64)

package command_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

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
