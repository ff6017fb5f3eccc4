//go:build linux

package kubernetes

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// awaitReload waits until all agents have read changed rules, or refused them.
func awaitReload(t testing.TB, success float64) {
	t.Helper()
	await(t, func() error {
		for node, page := range pages(t) {
			if got, ok := page["stapsdt_rules_reload_success"]; !ok || got != success {
				return fmt.Errorf("stapsdt_rules_reload_success of %s is %v", node, got)
			}
		}
		return nil
	})
}

// TestRules: changed rules are read, and a rule that stays goes on. Wrong rules are refused, and
// those in force stay.
func TestRules(t *testing.T) {
	countDone(t, "10m", "work_total")
	job{Name: "changed", Pods: 1, Events: 1000}.run(t)
	events := total(t, eventsOf("work_total"))
	require.GreaterOrEqual(t, events, 1000)

	countDone(t, "10m", "work_total", "more_total")
	require.Equal(t, events, total(t, eventsOf("work_total")))
	applyRules(t, "metrics: [wrong")
	awaitReload(t, 0)
	require.Equal(t, events, total(t, eventsOf("work_total")))
	applyRules(t, rules("10m", "work_total"))
	awaitReload(t, 1)
	require.Equal(t, events, total(t, eventsOf("work_total")))
}
