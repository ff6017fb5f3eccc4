//go:build linux && (amd64 || arm64)

package command_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/stretchr/testify/require"
)

// TestExportContainersBrief: a container that is gone within milliseconds has its label.
func TestExportContainersBrief(t *testing.T) {
	t.Parallel()
	provider, programs := versions(t, 2)
	program := programs[1]
	e := startExporter(t, provider, `metrics: [{name: hit_total, counter: 1, probe: "PROVIDER:hit", labels: [container_id]}]`)
	requireTraced(t, program, 1)
	want := map[string]float64{"": 1}
	require.Eventually(t, func() bool { return len(series(e.scrape(), "hit_total")) == 1 }, testenv.Patience, 5*time.Millisecond)
	for range 10 {
		id := hex.EncodeToString(make([]byte, 24)) + fmt.Sprintf("%016x", rand.Uint64())
		group := newCgroup(t, "brief-"+id)
		cmd := exec.Command("sh", "-c", `echo $$ >"$1/cgroup.procs" && exec "$2" 7 0`, "sh", group, program)
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Eventually(t, func() bool { return os.Remove(group) == nil }, testenv.Patience, time.Millisecond)
		want[fmt.Sprintf("{container_id=%q}", id)] = 7
	}
	require.Equal(t, want, series(e.scrape(), "hit_total"))
}
