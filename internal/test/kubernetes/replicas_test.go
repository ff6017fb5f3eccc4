//go:build linux

package kubernetes

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// deployment is a Deployment. Each of its pods fires 1000 events, a second after a tracer attaches.
type deployment struct {
	Name     string
	Replicas int
}

// start starts a deployment until the test is over.
func (d deployment) start(t testing.TB) {
	t.Helper()
	start(t, "deployment", d)
	kubectl(t, "-n work rollout status deployment/%s --timeout=60s", d.Name)
}

// pods returns the pods that run.
func (d deployment) pods(t testing.TB) []pod {
	t.Helper()
	all := pods(t, "-n work -l app=%s --field-selector status.phase=Running", d.Name)
	return slices.DeleteFunc(all, func(p pod) bool { return p.Metadata.DeletionTimestamp != "" })
}

// requireCounted counts the events of the pods, which an administrator selects, by the kernel.
func (d deployment) requireCounted(t testing.TB, selection string) {
	t.Helper()
	lines := output(t, administrator,
		"count -n work %s worker:asked -d 5s -o json --via kernel -v", selection)
	require.Equal(t, each(names(d.pods(t)), 1000), countsOfPods(t, lines))
}

// awaitEvents waits until a command has printed 1000 different events of each of some pods, and no
// others.
func awaitEvents(t testing.TB, trace *tracetest.Process, pods int) {
	t.Helper()
	await(t, func() error {
		events, numbers := decode[event](t, trace.Lines()), map[string]map[int]bool{}
		for _, e := range events {
			if numbers[e.Pod] == nil {
				numbers[e.Pod] = map[int]bool{}
			}
			numbers[e.Pod][e.Args.Number] = true
		}
		different := map[string]int{}
		for pod, of := range numbers {
			different[pod] = len(of)
		}
		want := each(slices.Collect(maps.Keys(different)), 1000)
		if len(different) != pods || len(events) != 1000*pods || !maps.Equal(different, want) {
			return fmt.Errorf("%d events, and these different ones: %v", len(events), different)
		}
		return nil
	})
}

// TestReplicas: the events of all pods of a Deployment are one stream, in which others join, for a
// user who may only edit.
func TestReplicas(t *testing.T) {
	user := developer(t, "work")
	web := deployment{"web", 2}
	web.start(t)
	require.Contains(t, output(t, user, "list -n work deploy/web"), "  worker:asked(number int)")

	trace := stapsdt(t, user, "trace -n work deploy/web worker:asked -o json -d 5m")
	awaitEvents(t, trace, 2)
	kubectl(t, "-n work scale deployment/web --replicas=3")
	awaitEvents(t, trace, 3)
	deleted := web.pods(t)[0].Metadata.Name
	kubectl(t, "-n work delete pod %s --wait=false", deleted)
	awaitEvents(t, trace, 4) // the ReplicaSet has replaced it
	trace.Signal(os.Interrupt)
	require.NoError(t, trace.Wait(testenv.Patience))
	awaitEvents(t, trace, 4)
	require.Equal(t, 2, strings.Count(trace.Dump(), "has joined"))
	trace.WaitSaid(regexp.MustCompile("^stapsdt: work/"+deleted+" "), 0)
}

// TestRecordReplicas: record writes a file for each pod of a Deployment, for a user who may only
// edit.
func TestRecordReplicas(t *testing.T) {
	user := developer(t, "work")
	recorded := deployment{"recorded", 3}
	recorded.start(t)
	directory := t.TempDir()
	output(t, user, "record -n work deploy/recorded worker:asked -d 5s -O %s/", directory)
	counts := map[string]int{}
	for _, file := range tracetest.Must(filepath.Glob(directory + "/*"))(t) {
		pod := strings.TrimSuffix(filepath.Base(file), ".rec")
		counts[pod] = countsOfProbes(t, read(t, file, "count"))["asked"]
	}
	require.Equal(t, each(names(recorded.pods(t)), 1000), counts)
}

// TestAgentCounts: the agents show an administrator the events of all pods with a label.
func TestAgentCounts(t *testing.T) {
	needsAgent(t)
	counted := deployment{"counted", 3}
	counted.start(t)
	counted.requireCounted(t, "-l app=counted")
}
