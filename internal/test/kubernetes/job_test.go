//go:build linux

package kubernetes

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// job is a job whose pods fire. They are spread evenly over the nodes.
type job struct {
	Name         string
	Pods, Events int
	AtOnce       bool          // a pod does not wait until it is traced
	Delay        time.Duration // how long it waits after that
	Claim        string        // of a volume for its probes, or "" for a volume of its own
	Node         string        // on which all pods run, or ""
	Vanishes     bool          // the job and its pods are deleted when it is complete
}

// run runs a job to its end. Its pods no longer fire, so they stay.
func (j job) run(t testing.TB) {
	t.Helper()
	apply(t, "job", j)
	until := "condition=Complete"
	if j.Vanishes {
		until = "delete"
	}
	kubectl(t, "-n work wait --for=%s job/%s --timeout=600s", until, j.Name)
}

// pods returns the pods of a job that have succeeded.
func (j job) pods(t testing.TB) []pod {
	t.Helper()
	return pods(t, "-n work -l job=%s --field-selector status.phase=Succeeded", j.Name)
}

// fired returns what the agents must have counted of a job, as [countsOf] does.
func (j job) fired(t testing.TB, metric string) map[string]int {
	t.Helper()
	const series = `%s %s{container="app",executable="worker",namespace="work",pod=%q,workload=%q}`
	all := map[string]int{}
	for _, p := range j.pods(t) {
		all[fmt.Sprintf(series, p.Spec.NodeName, metric, p.Metadata.Name, j.Name)] = j.Events
	}
	return all
}

// requireCounted runs a job. The agents must count its events exactly, each by its pod and on its
// node, and no others.
func (j job) requireCounted(t testing.TB, metric string) {
	t.Helper()
	series, events := countsOf(t, metric), total(t, eventsOf(metric))
	j.run(t)
	counted := countsOf(t, metric)
	maps.DeleteFunc(counted, func(name string, _ int) bool {
		_, old := series[name]
		return old
	})
	require.Len(t, counted, j.Pods)
	require.Equal(t, j.fired(t, metric), counted)
	require.Equal(t, j.Pods*j.Events, total(t, eventsOf(metric))-events)
}

// TestJob: the agents count the events of each pod of a job exactly, under its own name. The pods
// wait until they are traced.
func TestJob(t *testing.T) {
	countDone(t, "10m", "work_total")
	job{Name: "exact", Pods: 100, Events: 1000}.requireCounted(t, "work_total")
}

// TestMoment: pods that fire at once, and end, are counted exactly if they share the directory of
// their images, and a pod before them was traced. Otherwise the agents count processes that they
// have missed.
func TestMoment(t *testing.T) {
	countDone(t, "10m", "work_total")
	directory := filepath.Join(*directory, "probes")
	require.NoError(t, os.Mkdir(directory, 0o700))
	require.NoError(t, os.Chown(directory, 65532, 65532))
	apply(t, "volume", directory)
	node := nodes(t)[0] // the others of this machine would share the directory, too
	job{Name: "first", Pods: 1, Events: 1, Claim: "probes", Node: node}.run(t)
	shared := job{Name: "shared", Pods: 10, Events: 1000, AtOnce: true, Claim: "probes", Node: node}
	shared.requireCounted(t, "work_total")

	const missed = `stapsdt_unattached_processes_total{metric="work_total"}`
	was := total(t, missed) // on a busy machine, some of those above count as missed, too
	job{Name: "alone", Pods: 10, Events: 1000, AtOnce: true}.run(t)
	t.Logf("%d processes are known to be missed", total(t, missed)-was)
	require.Greater(t, total(t, missed), was)
}
