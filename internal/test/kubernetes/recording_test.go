//go:build linux

package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// read returns the lines that a verb prints of a recording, in JSON.
func read(t testing.TB, file, verb string) []string {
	t.Helper()
	command := filepath.Join(*directory, "stapsdt")
	out, err := exec.Command(command, words("%s --from %s -o json", verb, file)...).Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// crashing returns a pod whose container fires 1000 events into a recording, and ends badly.
func crashing(name, how string) podOptions {
	args := words("-events 1000 -crash %s", how)
	return podOptions{Name: name, Args: args, Records: true, Limit: "64Mi"}
}

// recording returns the path of a recording of a pod, by way of the mount namespace of its node.
func recording(t testing.TB, p pod, name string) string {
	t.Helper()
	root := fmt.Sprintf("/proc/%d/root", pidOf(t, "hostname-override "+p.Spec.NodeName+" "))
	own := filepath.Join(root, *directory, p.Spec.NodeName, "kubelet/pods", p.Metadata.UID)
	return filepath.Join(own, "volumes/kubernetes.io~empty-dir/stapsdt/rec", name)
}

// earlier finds the recordings of earlier lives in the output of list.
var earlier = regexp.MustCompile(
	`recorded in /run/stapsdt/rec/(\S+) by an earlier process; last event `)

// requireKept: the user lists the recording of an earlier life, reads it in the pod by each verb,
// and fetches exactly the bytes of the file in the volume. It returns the file.
func requireKept(t testing.TB, user string, p pod) (file string) {
	t.Helper()
	at := "work/" + p.Metadata.Name
	listed := strings.Join(output(t, user, "list -p %s", at), "\n")
	found := earlier.FindAllStringSubmatch(listed, -1)
	require.NotEmpty(t, found)
	name := found[len(found)-1][1]

	counted := output(t, user, "count -p %s --from %s worker:done -o json", at, name)
	require.Equal(t, map[string]int{"done": 1000}, countsOfProbes(t, counted))
	path := "/run/stapsdt/rec/" + name
	traced := output(t, user, "trace -p %s --from %s worker:done -o json", at, path)
	require.Len(t, traced, 1000)
	for i, e := range decode[event](t, traced) {
		require.Equal(t, "done", e.Probe)
		require.Equal(t, i, e.Args.Number)
	}
	type histogram struct {
		Count   int
		Average float64
	}
	summed := output(t, user, "hist -p %s --from %s worker:done number -o json", at, name)
	require.Equal(t, []histogram{{1000, 499.5}}, decode[histogram](t, summed))
	screens := decode[operations](t, output(t, user, "top -p %s --from %s -o json", at, name))
	require.Len(t, screens, 1)
	require.Equal(t, []operation{{"worker:life", 1}}, screens[0].Operations)

	file = filepath.Join(t.TempDir(), "kept.rec")
	output(t, user, "record -p %s --kept --from %s -O %s", at, name, file)
	requireSame(t, recording(t, p, name), file)
	return file
}

// requireSame requires that two files have the same bytes.
func requireSame(t testing.TB, want, got string) {
	t.Helper()
	require.Equal(t, tracetest.Must(os.ReadFile(want))(t), tracetest.Must(os.ReadFile(got))(t))
}

// TestKilled: what a container has recorded before the kernel killed it for its memory is read
// while the next life runs.
func TestKilled(t *testing.T) {
	user := developer(t, "work")
	t.Parallel()
	killed := crashing("killed", "memory")
	killed.start(t)
	await(t, func() error {
		if killed.status(t).LastState.Terminated.Reason != "OOMKilled" {
			return errors.New("the container is not killed")
		}
		return nil
	})
	killed.awaitReady(t)
	named := requireKept(t, user, killed.get(t))

	latest := filepath.Join(t.TempDir(), "kept.rec")
	output(t, user, "record -p work/killed --kept -O %s", latest)
	requireSame(t, named, latest)

	screen := strings.Join(output(t, user, "postmortem -p work/killed"), "\n")
	require.Regexp(t, `(?m)^/run/stapsdt/rec/app\.rec-\S+: process 1, `, screen)
	require.Regexp(t, `(?m)^kubernetes: the container ended with status 137 \(OOMKilled\) at `, screen)
	require.Regexp(t, `(?m)^ *\S+ +\d+ +worker:life `, screen)
	require.Regexp(t, `(?m)^kubectl stapsdt top work/killed/\S+ --from /run/stapsdt/rec/app\.rec-\S+$`, screen)
}

// awaitBackOff waits until the container of a pod is between two lives, with a message that
// matches.
func awaitBackOff(t testing.TB, of podOptions, message string) {
	t.Helper()
	await(t, func() error {
		waiting := of.status(t).State.Waiting
		ok, err := regexp.MatchString(message, waiting.Message)
		if err == nil && (!ok || waiting.Reason != "CrashLoopBackOff") {
			err = fmt.Errorf("the container is waiting: %+v", waiting)
		}
		return err
	})
}

// TestBetweenLives: what a container has recorded that crashes again and again is read while none
// of its lives runs.
func TestBetweenLives(t *testing.T) {
	user := developer(t, "work")
	t.Parallel()
	looping := crashing("looping", "status")
	looping.start(t)
	// Long enough, so that the first request does not meet a life.
	awaitBackOff(t, looping, "back-off ([248]0s|1m)")
	count := stapsdt(t, user, "count -p work/looping worker:done -d 1s")
	require.Error(t, count.Wait(testenv.Patience))
	count.WaitSaid(regexp.MustCompile("record --kept -p work/looping"), 0)
	requireKept(t, user, looping.get(t))
}

// TestNextLife: a user waits for the next life of a container that has crashed twice, and sees its
// events.
func TestNextLife(t *testing.T) {
	user := developer(t, "work")
	t.Parallel()
	twice := crashing("twice", "twice")
	twice.start(t)
	awaitBackOff(t, twice, "")
	numbers := map[int]bool{}
	for _, e := range decode[event](t, output(t, user,
		"trace -n work twice worker:done --wait --number 1000 -d 2m -o json")) {
		numbers[e.Args.Number] = true
	}
	require.Equal(t, 1000, len(numbers))
}
