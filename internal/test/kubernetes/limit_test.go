//go:build linux

package kubernetes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPodLimit: a request leaves a program alive that has little left of a limit of the pod itself,
// which its container cannot see.
func TestPodLimit(t *testing.T) {
	user := developer(t, "work")
	args := words("-take 90 -launch 1 -events 1000")
	limited := podOptions{Name: "limited", Args: args, PodLimit: "128Mi"}
	limited.start(t)
	limited.awaitReady(t)
	require.Equal(t, "128Mi", limited.get(t).Spec.Resources.Limits["memory"])
	counted := output(t, user, "count -p work/limited worker:asked -d 5s -o json")
	require.Equal(t, map[string]int{"asked": 1000}, countsOfProbes(t, counted))
	require.Zero(t, limited.status(t).RestartCount)
}
