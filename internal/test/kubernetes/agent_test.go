//go:build linux

package kubernetes

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// needsAgent starts the agents, unless they run.
func needsAgent(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(*directory, "agent")); err != nil {
		applyRules(t, rules("10m", "work_total"))
	}
}

// rules returns rules that count the events of workers by these metrics. A series expires after a
// time without events.
func rules(expire string, metrics ...string) string {
	const rule = "  - {name: %s, probe: 'worker:done', counter: 1, expire: %s}\n"
	text := "metrics:\n"
	for _, name := range metrics {
		text += fmt.Sprintf(rule, name, expire)
	}
	return text
}

// applyRules gives the agents rules, and starts them if they do not run.
func applyRules(t testing.TB, rules string) {
	t.Helper()
	own := kustomize(t, "agent")
	require.NoError(t, os.WriteFile(filepath.Join(own, "rules.yaml"), []byte(rules), 0o600))
	kubectl(t, "apply -k %s", own)
	awaitAgents(t)
}

// awaitAgents waits until an agent runs on each node.
func awaitAgents(t testing.TB) {
	t.Helper()
	kubectl(t, "-n stapsdt rollout status daemonset/stapsdt --timeout=120s")
}

// kustomize writes a kustomization, and returns its directory.
func kustomize(t testing.TB, name string) string {
	t.Helper()
	own := filepath.Join(*directory, name)
	require.NoError(t, os.MkdirAll(own, 0o755))
	text := manifest(t, name, *version)
	require.NoError(t, os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(text), 0o600))
	return own
}

// countDone lets the agents count the events of workers by these metrics, and waits until they do.
func countDone(t testing.TB, expire string, metrics ...string) {
	t.Helper()
	applyRules(t, rules(expire, metrics...))
	await(t, func() error {
		for node, page := range pages(t) {
			for _, metric := range metrics {
				if _, ok := page[eventsOf(metric)]; !ok {
					return fmt.Errorf("the agent of %s has no metric %s", node, metric)
				}
			}
		}
		return nil
	})
}

// agents returns the pods of the agents.
func agents(t testing.TB) []pod {
	t.Helper()
	all := pods(t, "-n stapsdt -l app.kubernetes.io/name=stapsdt")
	require.Len(t, all, len(nodes(t)))
	return all
}

// page is what an exporter shows: values by their series, such as `work_total{pod="a"}`.
type page map[string]float64

var client = http.Client{Timeout: 10 * time.Second}

// scrape returns the page of the exporter in a pod.
func scrape(p pod) (page, error) {
	answer, err := client.Get("http://" + p.Status.PodIP + ":9964/metrics")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	all := page{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		end := strings.LastIndex(lines.Text(), " ")
		value, err := strconv.ParseFloat(lines.Text()[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		all[lines.Text()[:end]] = value
	}
	return all, lines.Err()
}

// pages returns the pages of all agents, by their nodes.
func pages(t testing.TB) map[string]page {
	t.Helper()
	all := map[string]page{}
	for _, agent := range agents(t) {
		page, err := scrape(agent)
		require.NoError(t, err)
		all[agent.Spec.NodeName] = page
	}
	return all
}

// total returns the sum of the values of a series, which each agent must have.
func total(t testing.TB, series string) (sum int) {
	t.Helper()
	for _, page := range pages(t) {
		require.Contains(t, page, series)
		sum += int(page[series])
	}
	return sum
}

// eventsOf returns the series of the events that a metric has counted.
func eventsOf(metric string) string {
	return fmt.Sprintf("stapsdt_events_total{metric=%q}", metric)
}

// countsOf returns the values of a metric's series, by the nodes of the agents and the series:
// `node1 work_total{pod="a"}`.
func countsOf(t testing.TB, metric string) map[string]int {
	t.Helper()
	all := map[string]int{}
	for node, page := range pages(t) {
		for series, value := range page {
			if strings.HasPrefix(series, metric+"{") {
				all[node+" "+series] = int(value)
			}
		}
	}
	return all
}
