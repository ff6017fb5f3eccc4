//go:build linux && (amd64 || arm64)

package command_test

import (
	"maps"
	"os"
	"slices"
	"testing"
	"time"

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

// TestExportAgreement: metrics of the same probe agree from the first event on, also if the
// program fires as soon as the first tracer is there.
func TestExportAgreement(t *testing.T) {
	for range 3 {
		p := startExportee(t, "export_agreement")
		p.Say("await 200000 2")
		e := startExporter(t, "export_agreement", agreeing)
		p.Expect("ok", testenv.Patience)
		totals := slices.Collect(maps.Values(totalsOf(e)))
		require.Len(t, totals, 4)
		require.Positive(t, totals[0])
		for _, n := range totals {
			require.Equal(t, totals[0], n, totals)
		}
		e.Signal(os.Interrupt)
		require.NoError(t, e.Wait(testenv.Patience))
	}
}

// TestExportAgreementReload: rules that are added at the same time agree too, while the program
// fires. Those that stay lose no event, and those that go do not disturb them.
func TestExportAgreementReload(t *testing.T) {
	p := startExportee(t, "export_agreement_reload")
	const first = `
metrics:
  - {name: stay_total, probe: "PROVIDER:said", counter: 1, labels: []}
  - {name: gone_total, probe: "PROVIDER:said", counter: 1, labels: []}
`
	const stay = `  - {name: stay_total, probe: "PROVIDER:said", counter: 1, labels: []}
`
	e := startExporter(t, "export_agreement_reload", first)
	e.waitForSites("stay_total", 1)
	p.Say("storm 1500000 2")
	time.Sleep(50 * time.Millisecond)
	e.writeRules("export_agreement_reload", agreeing+stay)
	e.waitForMessage("read .*: 5 metrics")
	p.Expect("ok", testenv.Patience)
	require.EqualValues(t, 3_000_000, e.scrape()["stay_total"])
	totals := totalsOf(e)
	require.Positive(t, totals["total"])
	for metric, n := range totals {
		require.Equal(t, totals["total"], n, metric)
	}
	t.Logf("%v of 3,000,000 were fired after the rules were read again", totals["total"])
	require.NotContains(t, e.scrape(), "gone_total")
	e.writeRules("export_agreement_reload", agreeing)
	e.waitForMessage("read .*: 4 metrics")
	require.NotContains(t, e.scrape(), "stay_total")
	e.waitForSites("agree_total", 1)
}
