//go:build linux

package kubernetes

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// needsSecondNode adds a second node to the cluster, unless it has one, and waits for its agent.
func needsSecondNode(t testing.TB) {
	t.Helper()
	if len(nodes(t)) == 1 {
		add := exec.Command("bash", "-euc", `. scripts/lib/cluster.sh; cluster_node 2 "$group"`)
		add.Dir = "../../.."
		out, err := add.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	needsAgent(t)
	awaitAgents(t)
}

// requireBoth requires that each of two nodes has at least some of the pods.
func requireBoth(t testing.TB, pods []pod, least int) {
	t.Helper()
	counts := map[string]int{}
	for _, p := range pods {
		counts[p.Spec.NodeName]++
	}
	require.Len(t, counts, 2)
	for node, n := range counts {
		require.GreaterOrEqual(t, n, least, node)
	}
}

// TestNodes: each agent of two nodes counts the pods of its own node alone. These run a file that
// the other node does not have.
func TestNodes(t *testing.T) {
	needsSecondNode(t)
	countDone(t, "10m", "work_total")
	spread := job{Name: "spread", Pods: 20, Events: 1000}
	spread.requireCounted(t, "work_total")
	requireBoth(t, spread.pods(t), 5)
}

// TestAgentsCount: the agents of two nodes show an administrator the events of a Deployment.
func TestAgentsCount(t *testing.T) {
	needsSecondNode(t)
	everywhere := deployment{"everywhere", 4}
	everywhere.start(t)
	everywhere.requireCounted(t, "deploy/everywhere")
	requireBoth(t, everywhere.pods(t), 1)
}
