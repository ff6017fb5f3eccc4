//go:build linux

package kubernetes

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// administrator is the kubeconfig of the user who has all rights: that of the environment.
const administrator = ""

// stapsdt starts kubectl stapsdt with the words of a command line, as the user of a kubeconfig.
func stapsdt(t testing.TB, kubeconfig, format string, args ...any) *tracetest.Process {
	t.Helper()
	all := append([]string{"stapsdt"}, words(format, args...)...)
	if kubeconfig != administrator {
		all = append(all, "--kubeconfig", kubeconfig)
	}
	return tracetest.Command(t, exec.Command("kubectl", all...))
}

// output runs kubectl stapsdt, which must succeed, and returns the lines that it prints.
func output(t testing.TB, kubeconfig, format string, args ...any) []string {
	t.Helper()
	p := stapsdt(t, kubeconfig, format, args...)
	require.NoError(t, p.Wait(2*testenv.Patience), p.Dump())
	return p.Lines()
}

// decode returns the objects of lines of JSON.
func decode[T any](t testing.TB, lines []string) (all []T) {
	t.Helper()
	for _, line := range lines {
		var one T
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		all = append(all, one)
	}
	return all
}

// event is an event that trace -o json prints, as far as tests ask.
type event struct {
	Probe, Pod string
	PID        int
	Args       struct{ Number, Status int }
}

// row is a row that count -o json prints.
type row struct {
	Probe string
	By    struct{ Pod string }
	Count int
}

// operations are those of a tree, or of a screen of top.
type operations struct {
	Operation  string
	Operations []operation
}

type operation struct {
	Operation string
	Open      int
}

// countsOfPods returns the counts of rows, by their pods.
func countsOfPods(t testing.TB, lines []string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, r := range decode[row](t, lines) {
		counts[r.By.Pod] += r.Count
	}
	return counts
}

// countsOfProbes returns the counts of rows, by their probes.
func countsOfProbes(t testing.TB, lines []string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, r := range decode[row](t, lines) {
		counts[r.Probe] += r.Count
	}
	return counts
}

// each returns a map in which each name has a number.
func each(names []string, n int) map[string]int {
	all := map[string]int{}
	for _, name := range names {
		all[name] = n
	}
	return all
}

// TestNestedNamespaces: the node's PID namespace is not the machine's, and that of the pod is below
// it. The first process of the container has no probes. All events of those that it has started are
// seen, by the kernel and by the sockets.
func TestNestedNamespaces(t *testing.T) {
	needsAgent(t)
	launched := podOptions{Name: "launched", Args: words("-launch 3 -events 100")}
	launched.start(t)
	launched.awaitReady(t)
	for _, via := range []string{"kernel", "socket"} {
		t.Run(via, func(t *testing.T) {
			events := map[int]int{}
			for _, e := range decode[event](t, output(t, administrator,
				"trace -p work/launched worker:asked --via %s --number 300 -d 60s -o json", via)) {
				events[e.PID]++
			}
			require.Len(t, events, 3)
			for pid, n := range events {
				require.Equal(t, 100, n, "of process %d", pid)
			}
		})
	}
}
