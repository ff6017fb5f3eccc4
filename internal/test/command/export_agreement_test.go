//go:build linux && (amd64 || arm64)

package command_test

import (
	"maps"
	"slices"
	"strconv"
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

// waitForAgreement waits until each of the rules is attached and has counted something.
func waitForAgreement(e *exporter) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		totals := totalsOf(e)
		return len(totals) == 4 && slices.Min(slices.Collect(maps.Values(totals))) > 0
	}, testenv.Patience, 5*time.Millisecond)
}

// halt lets a program stop that fires without end, and returns how often it has fired.
func halt(t *testing.T, p *tracetest.Process) float64 {
	t.Helper()
	p.Say("halt")
	fired := tracetest.Must(strconv.ParseFloat(p.Expect("fired ", testenv.Patience), 64))(t)
	return fired
}

// requireAgreement requires that all rules have counted the same number of events.
func requireAgreement(t *testing.T, e *exporter) {
	t.Helper()
	totals := totalsOf(e)
	require.Len(t, totals, 4)
	for metric, n := range totals {
		require.Equal(t, totals["total"], n, metric)
	}
}

// TestExportAgreement: metrics of the same probe agree from the first event on, also if the
// program fires as soon as the first tracer is there.
func TestExportAgreement(t *testing.T) {
	t.Parallel()
	for range 3 {
		p := startExportee(t, "export_agreement")
		tell(p, "run 2")
		e := startExporter(t, "export_agreement", agreeing)
		waitForAgreement(e)
		halt(t, p)
		requireAgreement(t, e)
		interrupt(t, e)
		p.Hangup()
		require.NoError(t, p.Wait(testenv.Patience))
	}
}

// TestExportAgreementReload: rules that are added at the same time agree too, while the program
// fires. Those that stay lose no event, and those that go do not disturb them.
func TestExportAgreementReload(t *testing.T) {
	t.Parallel()
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
	tell(p, "run 2")
	require.Eventually(t, func() bool { return e.scrape()["stay_total"] > 0 }, testenv.Patience, 5*time.Millisecond)
	e.writeRules("export_agreement_reload", agreeing+stay)
	e.waitForMessage("read .*: 5 metrics")
	waitForAgreement(e)
	fired := halt(t, p)
	require.Equal(t, fired, e.scrape()["stay_total"])
	requireAgreement(t, e)
	t.Logf("%v of %v were fired after the rules were read again", totalsOf(e)["total"], fired)
	require.NotContains(t, e.scrape(), "gone_total")
	e.writeRules("export_agreement_reload", agreeing)
	e.waitForMessage("read .*: 4 metrics")
	require.NotContains(t, e.scrape(), "stay_total")
	e.waitForSites("agree_total", 1)
}
