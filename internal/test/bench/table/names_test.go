//go:build linux && (amd64 || arm64)

package table

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-stapsdt/stapsdt"

	"github.com/stretchr/testify/require"
)

// TestDescriptionInFile: in the file of twenty probes, an argument takes at most 40 bytes, with
// or without a name, its note and all that describes the file included.
func TestDescriptionInFile(t *testing.T) {
	file := func(types []stapsdt.ArgType, names ...string) int64 {
		p := stapsdt.NewProvider("benchnames", stapsdt.WithDir(t.TempDir()))
		defer p.Close()
		for i := range 20 {
			probe, err := p.AddProbe(fmt.Sprintf("request__%d", i), types...)
			require.NoError(t, err)
			if len(names) > 0 {
				require.NoError(t, probe.NameArgs(names...))
			}
		}
		require.NoError(t, p.Load())
		info, err := os.Stat(p.Path())
		require.NoError(t, err)
		return info.Size()
	}
	types := []stapsdt.ArgType{stapsdt.String, stapsdt.Int32, stapsdt.Uint64, stapsdt.Int64}
	const arguments = 20 * 4
	none := file(nil)
	for _, names := range [][]string{nil, {"path", "status", "bytes", "elapsed"}} {
		added := file(types, names...) - none
		t.Logf("%d bytes for each argument named %v", added/arguments, names)
		require.Greater(t, added, int64(20*arguments), "there is a description")
		require.LessOrEqual(t, added, int64(40*arguments))
	}
}
