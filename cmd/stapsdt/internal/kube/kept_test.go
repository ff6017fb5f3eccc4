//go:build unix

package kube

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crashed returns a cluster whose container waits for its next life, and records to a volume.
func crashed() cluster {
	c := testCluster()
	err := json.Unmarshal([]byte(`{"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}, "running": null}}`), &c.Pods[0].Status.ContainerStatuses[0])
	if err == nil {
		err = json.Unmarshal([]byte(`{
			"env": [{"name": "STAPSDT_RECORD", "value": "/rec/web/web.rec,1M"}],
			"volumeMounts": [{"name": "rec", "mountPath": "/rec"}, {"name": "part", "mountPath": "/part", "subPath": "x"},
				{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}]}`), &c.Pods[0].Spec.Containers[0])
	}
	if err != nil {
		panic(err)
	}
	return c
}

// TestBetweenLives: the recordings of a container that does not run are read in a container that has its volumes and no target, and that
// is used again.
func TestBetweenLives(t *testing.T) {
	r := newRun(t, crashed(), "list", "-p", "shop")
	require.Zero(t, r.wait(), r.err.String())
	calls := r.calls()
	assert.NotContains(t, calls, "--target=")
	assert.Contains(t, calls, `"volumeMounts":[{"name":"rec","mountPath":"/rec","readOnly":true}]}`)
	assert.Contains(t, calls, " --mounted --record=/rec/web/web.rec,1M --pod=default/shop/app --node=n1 -- list --")
	assert.Contains(t, calls, "inpod look --container="+shopID+" --memory=67108864 --mounted --record=/rec/web/web.rec,1M\n")

	out, status := r.again("top", "-p", "shop", "--from", "web.rec-x", "--since", "1s")
	require.Zero(t, status, out)
	assert.Equal(t, "top --since=1s --\n", out)
	assert.Contains(t, r.calls(), "--mounted --record=/rec/web/web.rec,1M --from=web.rec-x --pod=default/shop/app --node=n1 -- top")
	assert.Equal(t, 1, strings.Count(r.calls(), " inpod wait "), "it was used again")
	out, status = r.again("record", "-p", "shop", "--kept", "-O", "kept.rec")
	require.Zero(t, status, out)
	assert.Contains(t, r.calls(), "--mounted --record=/rec/web/web.rec,1M --kept --pod=default/shop/app --node=n1 -- record")
	got, err := os.ReadFile(filepath.Join(r.directory, "kept.rec"))
	require.NoError(t, err)
	assert.Equal(t, recordingBytes, got)
	assert.Contains(t, out, "stapsdt: /rec/web.rec of the container is in kept.rec: 90000 bytes, SHA-256 ")
}

// TestPostmortem: the newest recording is read, and the command in the pod gets what Kubernetes tells about the last life.
func TestPostmortem(t *testing.T) {
	const terminated = `{"terminated": {"reason": "OOMKilled", "exitCode": 137, "startedAt": "2026-11-26T05:14:17Z", "finishedAt": "2026-11-26T05:14:23Z"}}`
	const passed = `-- postmortem --container-status={"pod":"default/shop/app","reason":"OOMKilled","exitCode":137,"startedAt":"2026-11-26T05:14:17Z","finishedAt":"2026-11-26T05:14:23Z"} --`
	c := crashed()
	require.NoError(t, json.Unmarshal([]byte(terminated), &c.Pods[0].Status.ContainerStatuses[0].LastState))
	r := newRun(t, c, "postmortem", "-p", "shop", "-o", "json")
	require.Zero(t, r.wait(), r.err.String())
	assert.Contains(t, r.calls(), "--mounted --record=/rec/web/web.rec,1M --newest --pod=default/shop/app --node=n1 ")
	assert.Contains(t, r.calls(), strings.Replace(passed, "postmortem ", "postmortem --output=json ", 1))
	out, status := r.again("postmortem", "-p", "shop", "--from", "web.rec-x")
	require.Zero(t, status, out)
	assert.Contains(t, r.calls(), "--from=web.rec-x --newest --pod=default/shop/app --node=n1 "+passed)

	c = testCluster() // it runs
	c.Listens, c.Pods = false, c.Pods[:1]
	r = newRun(t, c, "postmortem", "-p", "shop", "--image", "i")
	require.Zero(t, r.wait(), r.err.String())
	assert.Contains(t, r.calls(), "--alone --newest --pod=default/shop/app --node=n1 -- postmortem --container-status={\"pod\":\"default/shop/app\",\"exitCode\":0} --")

	for _, args := range []string{"-l app=shop", "-p shop shop:rec"} {
		r = newRun(t, testCluster(), append([]string{"postmortem"}, strings.Fields(args)...)...)
		require.Equal(t, 2, r.wait(), args)
		require.Contains(t, r.err.String(), "postmortem is for a recording of one pod: give POD, and --from to select the recording", args)
	}
}

// TestKeptRunning: a running container's recordings are read in a container with its PID namespace, whether or not it listens.
func TestKeptRunning(t *testing.T) {
	c := testCluster()
	c.Listens = false
	c.Pods = c.Pods[:1]
	r := newRun(t, c, "record", "-p", "shop", "--from", "/rec/web.rec", "-O", "kept.rec", "--image", "i")
	require.Zero(t, r.wait(), r.err.String())
	assert.Contains(t, r.calls(), "--target=app")
	assert.Contains(t, r.calls(), "--alone --from=/rec/web.rec --kept --pod=default/shop/app --node=n1 -- record --")
}

// TestNotKept: why the recordings of a container that does not run cannot be read.
func TestNotKept(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*pod)
		args   string
		said   string
	}{
		"other request": {func(*pod) {}, "trace shop:*", "is not running: CrashLoopBackOff; list -p default/shop shows what its earlier lives have recorded, record --kept -p default/shop -O FILE fetches it, postmortem -p default/shop shows what the last one was doing, and --wait waits for the next life"},
		"finished":      {func(p *pod) { p.Status.Phase = "Failed" }, "list", "the pod default/shop has ended (Failed): no container can be added to it"},
		"no volume":     {func(p *pod) { p.Spec.Containers[0].VolumeMounts = nil }, "list", "it has no volume that another container can mount"},
		"no variable":   {func(p *pod) { p.Spec.Containers[0].Env = nil }, "list", "its specification does not set STAPSDT_RECORD to a path: give --from PATH"},
		"a reference":   {func(p *pod) { p.Spec.Containers[0].Env[0].Value = "$(DIR)/x.rec" }, "record --kept -O f", "give --from PATH"},
	} {
		c := crashed()
		test.change(&c.Pods[0])
		r := newRun(t, c, append(strings.Fields(test.args), "-p", "shop")...)
		assert.Equal(t, 1, r.wait(), name)
		assert.Contains(t, r.err.String(), test.said, name)
		assert.NotContains(t, r.calls(), "debug", name)
	}
}

// TestNextLife: with --wait, a request waits until the container runs, and until its program listens.
func TestNextLife(t *testing.T) {
	c := crashed()
	c.Back, c.Late, c.Listens = 4, 3, false
	c.Pods = c.Pods[:1]
	r := newRun(t, c, "count", "-p", "shop", "shop:*", "--wait", "--image", "i")
	require.Zero(t, r.wait(), r.err.String())
	assert.Equal(t, "stapsdt: waiting for the next life of the container app of the pod default/shop\n", r.err.String())
	assert.Equal(t, "count -- shop:*\n", r.out.String())
	before, _, _ := strings.Cut(r.calls(), "debug ")
	assert.Equal(t, 4, strings.Count(before, " pod shop "), "until it ran")
	assert.Equal(t, 3, strings.Count(r.calls(), " inpod look "), "until it listened")
	assert.Contains(t, r.calls(), "--target=app")

	c = crashed()
	c.Pods[0].Status.Phase = "Succeeded"
	r = newRun(t, c, "count", "-p", "shop", "shop:*", "--wait")
	assert.Equal(t, 1, r.wait())
	assert.Contains(t, r.err.String(), "is not running")
}
