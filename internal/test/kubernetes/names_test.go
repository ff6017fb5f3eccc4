//go:build linux

package kubernetes

import (
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNames: a command in the agent selects pods that start later by their names. It misses the
// events before it is attached to them, so they wait.
func TestNames(t *testing.T) {
	needsAgent(t)
	agent := agents(t)[0]
	const line = "-n stapsdt exec %s -- /stapsdt count -p work/later-*/app worker:done " +
		"--by namespace,pod -d 10m -o json"
	count := tracetest.Command(t, exec.Command("kubectl", words(line, agent.Metadata.Name)...))
	count.WaitSaid(regexp.MustCompile("waiting for one"), testenv.Patience)
	later := job{Name: "later", Pods: 3, Events: 1000, Delay: 2 * time.Second}
	later.run(t)
	job{Name: "other", Pods: 1, Events: 1000, Delay: 2 * time.Second}.run(t)
	// kubectl exec passes no signals on.
	require.NoError(t, unix.Kill(pidOf(t, "^/stapsdt count -p work/later"), unix.SIGINT))
	require.NoError(t, count.Wait(testenv.Patience))

	fired := slices.DeleteFunc(later.pods(t), func(p pod) bool {
		return p.Spec.NodeName != agent.Spec.NodeName
	})
	require.NotEmpty(t, fired)
	require.Equal(t, each(names(fired), 1000), countsOfPods(t, count.Lines()))
}
