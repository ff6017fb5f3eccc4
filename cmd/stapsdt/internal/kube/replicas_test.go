//go:build unix

package kube

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twoNodes returns a cluster with pods of the Deployment web, each on a node of its own with an agent.
func twoNodes(t *testing.T, pods ...string) cluster {
	c := workloads(t)
	c.Pods = c.Pods[1:2]
	agent := c.Pods[0]
	for i, name := range pods {
		node := string(rune('1'+i)) + "n"
		c.Pods = append(c.Pods, runningPod(t, name, node, "app=web; app=web,hash=1", "ReplicaSet/web-1"))
		its := agent
		its.Metadata.Name, its.Spec.NodeName = "stapsdt-"+node, node
		c.Pods = append(c.Pods, its)
	}
	return c
}

// anyTime is what differs from run to run.
var anyTime = regexp.MustCompile(`"time":"[^"]*",`)

// interrupt ends a run as Ctrl-C does, once pods have begun to send, and returns its exit status.
func (r *run) interrupt(pods ...string) int {
	for _, pod := range pods {
		r.await("sending " + pod)
	}
	require.NoError(r.t, r.command.Process.Signal(syscall.SIGINT))
	return r.wait()
}

// TestReplicas: the events of all pods of a workload are one stream, by the sockets or by the agents of their nodes.
func TestReplicas(t *testing.T) {
	for _, test := range []struct {
		target, via, at string
		listens         bool
	}{
		{"deploy/web", "", "web-1-a --container=stapsdt-", true},
		{"-l app=web", "", "web-1-b --container=stapsdt-", true},
		{"deploy/web", "", "stapsdt-1n --container=stapsdt -- ", false},
		{"rs/web-1", "--via=kernel", "stapsdt-2n --container=stapsdt -- ", true},
	} {
		c := twoNodes(t, "web-1-a", "web-1-b")
		c.Listens = test.listens
		args := strings.Fields("count -o json -w n>=0 shop:done " + test.via)
		if strings.HasPrefix(test.target, "-l") {
			args = append(args, "-l", "app=web")
		} else {
			args = append(args[:1], append([]string{test.target}, args[1:]...)...)
		}
		r := newRun(t, c, args...)
		require.NoError(t, r.command.Start())
		require.Zero(t, r.interrupt("web-1-a", "web-1-b"), r.err.String())
		rows := strings.Split(anyTime.ReplaceAllString(r.out.String(), ""), "\n")
		assert.ElementsMatch(t, []string{
			`{"provider":"shop","probe":"done","by":{"pod":"web-1-a"},"count":1000}`,
			`{"provider":"shop","probe":"done","by":{"pod":"web-1-b"},"count":1000}`, "",
		}, rows)
		assert.Regexp(t, `^stapsdt: default/web-1-[ab]: a warning of every pod\n$`, r.err.String(), "once")
		assert.Contains(t, r.calls(), test.at)
		via := ""
		if test.via != "" {
			via = test.via + " "
		}
		assert.Contains(t, r.calls(), " -- record --size=4194304 --increments --strlen=4000 --where=n>=0 "+via+"-- shop:done\n")
		assert.Contains(t, r.calls(), "sent all of web-1-a\n")
	}
}

// TestReplicasTrace: trace names the pod of each event, and ends after a number of events.
func TestReplicasTrace(t *testing.T) {
	r := newRun(t, twoNodes(t, "web-1-a", "web-1-b"), "trace", "deploy/web", "shop:done", "--number", "2000", "--show", "namespace,pod,container,pid,n")
	require.Zero(t, r.wait(), r.err.String())
	assert.Contains(t, r.out.String(), " POD ")
	for _, pod := range []string{"web-1-a", "web-1-b"} {
		assert.Equal(t, eventsOfPod, strings.Count(r.out.String(), `pod="`+pod+`" container="app" pid=7 n=`), pod)
		assert.Equal(t, eventsOfPod, strings.Count(r.out.String(), " default/"+pod+"/app "), pod)
	}
}

// TestReplicasJoin: pods that come later join, those that are deleted leave, those that refuse are named, and the others go on.
func TestReplicasJoin(t *testing.T) {
	c := twoNodes(t, "web-1-a", "refused-1", "web-1-b", "lost")
	r := newRun(t, c, "count", "deploy/web", "shop:done", "-o", "json")
	require.NoError(t, r.command.Start())
	r.await("sending web-1-a")
	r.await("sending web-1-b")
	r.await("sending lost")
	later := twoNodes(t, "web-1-a", "refused-1", "gone", "web-1-c", "lost")
	// The containers that were added so far go on.
	unlock := lockCluster(r.directory)
	now := &fake{directory: r.directory}
	require.NoError(t, now.read())
	for i := range now.Pods {
		for j := range later.Pods {
			if later.Pods[j].Metadata.Name == now.Pods[i].Metadata.Name {
				later.Pods[j] = now.Pods[i]
			}
		}
	}
	for i := range later.Pods {
		if later.Pods[i].Metadata.Name == "gone" {
			later.Pods[i].Status.Phase = "Succeeded"
		}
	}
	require.NoError(t, saveCluster(r.directory, &later))
	unlock()
	require.Zero(t, r.interrupt("web-1-c"), r.err.String())
	for _, pod := range []string{"web-1-a", "web-1-b", "web-1-c"} {
		assert.Contains(t, r.out.String(), `"by":{"pod":"`+pod+`"},"count":1000}`)
	}
	said := r.err.String()
	for _, line := range []string{
		"stapsdt: default/refused-1: no such probe: the process has no shop:done\n",
		"stapsdt: default/web-1-b has ended\n",
		"stapsdt: default/web-1-c has joined\n",
	} {
		assert.Equal(t, 1, strings.Count(said, line), "%s: %s", line, said)
	}
	// A pod whose connection was lost is asked again.
	assert.Contains(t, said, "stapsdt: default/lost is no longer watched: the connection to the pod was lost: kubectl: error reading from error stream: unexpected EOF\n")
	assert.Contains(t, r.out.String(), `"by":{"pod":"lost"},"count":`)
	assert.NotContains(t, said, "default/gone")
	// What was not seen of it is told at the end, by pod.
	assert.Regexp(t, `stapsdt: default/lost was not watched from \d\d:\d\d:\d\d\.\d+ to \d\d:\d\d:\d\d\.\d+: its events are missing\n`, said)
	assert.Contains(t, r.out.String(), `"unwatched":[{"namespace":"default","pod":"lost","container":"app","from":"`)
	assert.NotContains(t, said, "web-1-b was not watched", "it has ended")
}

// TestReplicasUnwatched: the objects of trace tell which pod was not watched, and when.
func TestReplicasUnwatched(t *testing.T) {
	r := newRun(t, twoNodes(t, "web-1-a", "lost"), "trace", "deploy/web", "shop:done", "-o", "json")
	require.NoError(t, r.command.Start())
	r.await("sending lost")
	require.Zero(t, r.interrupt("web-1-a"), r.err.String())
	assert.Regexp(t, `(?m)^\{"unwatched":\[\{"namespace":"default","pod":"lost","container":"app","from":"[^"]+","to":"[^"]+"\}.*\]\}$`, r.out.String())
}

// TestReplicasNone: if no pod can be asked, the exit status is that of the first.
func TestReplicasNone(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*cluster)
		args   string
		status int
		said   string
	}{
		"all refuse":  {func(*cluster) {}, "count deploy/web shop:done", 3, "stapsdt: none of 2 pods of the Deployment web: no such probe: the process has no shop:done\n"},
		"one refuses": {func(c *cluster) { c.Pods = c.Pods[:2] }, "count deploy/web shop:done", 3, "stapsdt: the pod default/refused-1: no such probe: the process has no shop:done\n"},
		"no pod":      {func(c *cluster) { c.Pods = c.Pods[:1] }, "count deploy/web shop:done", 3, "stapsdt: the Deployment web has no running pod: not found\n"},
		"no workload": {func(c *cluster) { c.Objects = nil }, "count deploy/web shop:done", 3, "stapsdt: kubectl: deployments.apps \"web\" not found\n"},
		"no listing": {func(c *cluster) {
			c.Refused = map[string]string{"get": "Error from server (Forbidden): deployments is forbidden"}
		}, "count deploy/web shop:done", 4, "stapsdt: kubectl: deployments is forbidden\n"},
		"silent": {func(c *cluster) { c.Listens = false }, "count deploy/web shop:done --via=socket", 4, "stapsdt: none of 2 pods of the Deployment web: the program does not listen"},
		"different errors": {func(c *cluster) {
			c.Pods[3].Metadata.Name = "web-1-a"
			c.Pods[3].Status.ContainerStatuses[0].State = containerState{}
		}, "count deploy/web shop:done", 3, "stapsdt: none of 2 pods of the Deployment web can be asked\n"},
		"a list":    {func(*cluster) {}, "list deploy/web status:3", 3, "stapsdt: none of 2 pods of the Deployment web: no file of the process has such a probe\n"},
		"functions": {func(*cluster) {}, "tree deploy/web go:main.*", 2, "stapsdt: tree pairs the calls of functions in one pod only: give POD\n"},
		"one file":  {func(*cluster) {}, "record deploy/web shop:done -O f", 2, "stapsdt: -O f is one file, but the Deployment web has 2 pods: give -O DIRECTORY/ for a recording of each\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c := twoNodes(t, "refused-1", "refused-2")
			test.change(&c)
			r := newRun(t, c, strings.Fields(test.args)...)
			assert.Equal(t, test.status, r.wait())
			assert.Contains(t, r.err.String(), test.said)
		})
	}
}

// TestReplicasFiles: a recording of each pod is fetched.
func TestReplicasFiles(t *testing.T) {
	r := newRun(t, twoNodes(t, "web-1-a", "web-1-b"), "record", "deploy/web", "shop:done", "-O", "recordings/")
	require.NoError(t, r.command.Start())
	require.Eventually(t, func() bool { return strings.Count(r.calls(), " -- record --size=") == 2 }, testenv.Patience, 5*time.Millisecond)
	require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
	require.Zero(t, r.wait(), r.err.String())
	for _, pod := range []string{"web-1-a", "web-1-b"} {
		got, err := os.ReadFile(filepath.Join(r.directory, "recordings", pod+".rec"))
		require.NoError(t, err)
		assert.Equal(t, recordingBytes, got)
		assert.Contains(t, r.err.String(), "stapsdt: default/"+pod+": the recording is in recordings/"+pod+".rec\n")
	}
}

// TestReplicasList: the same text of several pods is written once.
func TestReplicasList(t *testing.T) {
	r := newRun(t, twoNodes(t, "web-1-a", "web-1-b"), "list", "deploy/web")
	require.Zero(t, r.wait(), r.err.String())
	assert.Equal(t, "default/web-1-a, default/web-1-b:\nlist --\n", r.out.String())
	const names = `{"namespace":"default","pod":"web-1-a","container":"app",`
	assert.Equal(t, names+"\"probe\":\"a\"}\n"+names+"\"probe\":\"b\"}\n", string(AddPod([]byte("{\"probe\":\"a\"}\n{\"probe\":\"b\"}\n"), render.PodName{Namespace: "default", Pod: "web-1-a", Container: "app"})))
}

// TestReplicasListSome: a pod that cannot be asked is named, and a signal ends the commands in the others with their results.
func TestReplicasListSome(t *testing.T) {
	c := twoNodes(t, "web-1-a", "web-1-b", "web-1-c")
	c.Pods[3].Status.ContainerStatuses[0].State = containerState{}
	r := newRun(t, c, "list", "deploy/web", "until:stopped")
	require.NoError(t, r.command.Start())
	require.Eventually(t, func() bool { return strings.Count(r.calls(), "until:stopped") == 2 }, testenv.Patience, 5*time.Millisecond)
	require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
	require.Zero(t, r.wait(), r.err.String())
	assert.Equal(t, "default/web-1-a, default/web-1-c:\nan event\nthe result\n", r.out.String())
	assert.Equal(t, "stapsdt: default/web-1-b: the container app of the pod default/web-1-b is not running: it has not been started\n", r.err.String())
}

// TestLocal: the verb runs here with the flags that are not the pods', by pod unless the user has chosen otherwise.
func TestLocal(t *testing.T) {
	for args, want := range map[string]string{
		"top deploy/web --number 1":                           "top --number=1 --by=pod --",
		"top -A -l app=web shop:*":                            "top --by=namespace,pod -- shop:*",
		"hist deploy/web shop:x n --by route --via kernel -v": "hist --by=route -- shop:x n",
		"latency deploy/web shop:x -d 5s --budget 1%":         "latency --duration=5s --by=pod -- shop:x",
		"trace deploy/web shop:* -w n>1 -o chrome -O t.json":  "trace --where=n>1 --output=chrome --output-file=t.json -- shop:*",
		"tree sts/db --slowest 3 -w n>1 -n other":             "tree --slowest=3 --where=n>1 --",
	} {
		var got []string
		c := newCommand("", func(r *Request) error {
			got = r.local()
			return nil
		})
		c.SetArgs(strings.Fields(args))
		require.NoError(t, c.Execute(), args)
		assert.Equal(t, want, strings.Join(got, " "))
	}
}
