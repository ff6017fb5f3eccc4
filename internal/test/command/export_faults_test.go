//go:build linux && (amd64 || arm64)

package command_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExportProblems: what is wrong with a rule names it, and the other rules go on.
func TestExportProblems(t *testing.T) {
	const provider = "export_problems"
	exportee(t, provider)
	e := exports(t, provider, saidRule+`
  - {name: none_total, probe: "PROVIDER:said", counter: 1, by: [nothing]}
  - {name: large_total, probe: "PROVIDER:said", counter: 1, by: [text, {a: text}, {b: text}, {c: text}, {d: text}, {e: text}, {f: text}]}
`)
	e.waits("said_total", 1)
	e.says(`none_total: export_problems:said: undefined: nothing`)
	e.says(`large_total: export_problems:said: this needs more than the 512 bytes`)
	all := e.scrape()
	for _, name := range []string{"none_total", "large_total"} {
		require.EqualValues(t, 1, all[`stapsdt_errors_total{metric="`+name+`"}`])
		require.Zero(t, all[`stapsdt_attached_sites{metric="`+name+`"}`])
	}
}
