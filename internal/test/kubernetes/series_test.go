//go:build linux

package kubernetes

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSeries: 200 pods come and go. All their events are counted, and their series expire.
func TestSeries(t *testing.T) {
	countDone(t, "8s", "brief_total")
	job{Name: "brief", Pods: 200, Events: 10, Vanishes: true}.run(t)
	await(t, func() error {
		if n := total(t, eventsOf("brief_total")); n != 2000 {
			return fmt.Errorf("%d events are counted", n)
		}
		return nil
	})
	await(t, func() error {
		if series := countsOf(t, "brief_total"); len(series) > 0 {
			return fmt.Errorf("there are still %d series", len(series))
		}
		return nil
	})
	require.Zero(t, total(t, `stapsdt_series{metric="brief_total"}`))
	t.Logf("the agents take %d MB", total(t, "process_resident_memory_bytes")>>20)
	t.Logf("they have missed %d processes", total(t, "stapsdt_missed_processes_total"))
}
