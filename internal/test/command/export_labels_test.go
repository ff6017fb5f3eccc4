//go:build linux && (amd64 || arm64)

package command_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExportEqualLabels: strings that become one label, because they are cut or are not UTF-8,
// are one series. Its gauge is the latest value, and not a sum.
func TestExportEqualLabels(t *testing.T) {
	t.Parallel()
	p := startExportee(t, "export_equal")
	e := startExporter(t, "export_equal", saidRule+`
  - {name: size, probe: "PROVIDER:said", gauge: bytes, by: [text], labels: []}
`)
	e.waitForSites("said_total", 1)
	e.waitForSites("size", 1)
	letters := strings.Repeat("a", 63) // of the 64 bytes that a label has
	for _, text := range []string{letters + "é12345", letters + "Ω2", letters + "€", "\xff123", "\xfe123", "\xfd123"} {
		tell(p, "say "+strconv.Quote(text))
	}
	all := e.scrape()
	require.Equal(t, map[string]float64{`{text="` + letters + `"}`: 66, `{text="�123"}`: 4}, series(all, "size"))
	require.Equal(t, map[string]float64{`{text="` + letters + `"}`: 3, `{text="�123"}`: 3}, series(all, "said_total"))
}
