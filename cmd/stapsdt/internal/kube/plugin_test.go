//go:build unix

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shopID is the ID of the container of the pod shop.
var shopID = strings.Repeat("ab", 32)

// testCluster returns a cluster with the pod default/shop, whose container has a user and a group, and whose node has an agent.
func testCluster() cluster {
	c := cluster{User: 1000, Group: 2000, Listens: true}
	err := json.Unmarshal([]byte(`[
		{"metadata": {"name": "shop", "namespace": "default"},
		 "spec": {"nodeName": "n1", "containers": [{"name": "app", "securityContext": {"runAsUser": 1000, "runAsGroup": 2000}}]},
		 "status": {"phase": "Running", "containerStatuses": [{"name": "app", "containerID": "containerd://`+shopID+`", "state": {"running": {}}}]}},
		{"metadata": {"name": "stapsdt-xyz", "namespace": "stapsdt", "annotations": {"labels": "`+agentLabel+`"}},
		 "spec": {"nodeName": "n1", "containers": [{"name": "stapsdt", "image": "agent:1", "resources": {"limits": {"memory": "128Mi"}}}]},
		 "status": {"phase": "Running"}}]`), &c.Pods)
	if err == nil {
		err = json.Unmarshal([]byte(`{"running": {}}`), &c.Start)
	}
	if err != nil {
		panic(err)
	}
	return c
}

// run is a run of the plugin.
type run struct {
	t         *testing.T
	directory string
	command   *exec.Cmd
	out, err  bytes.Buffer
	lock      *os.File // ends with the test
}

func newRun(t *testing.T, c cluster, args ...string) *run {
	t.Helper()
	testenv.NotRaced(t, "each run is a dozen processes, which take a second each to begin")
	r := &run{t: t, directory: t.TempDir()}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"kubectl", Name} {
		require.NoError(t, os.Symlink(self, filepath.Join(r.directory, name)))
	}
	require.NoError(t, saveCluster(r.directory, &c))
	r.lock, err = os.Create(filepath.Join(r.directory, "test"))
	require.NoError(t, err)
	t.Cleanup(func() { r.lock.Close() })
	require.NoError(t, syscall.Flock(int(r.lock.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	t.Cleanup(cancel)
	r.command = exec.CommandContext(ctx, filepath.Join(r.directory, Name), args...)
	r.command.Dir = r.directory
	r.command.Env = append(os.Environ(), "PATH="+r.directory, "FAKE_KUBECTL="+r.directory, "STAPSDT_IMAGE=", "NO_COLOR=")
	r.command.Stdout, r.command.Stderr = &r.out, &r.err
	return r
}

// wait runs it to the end, and returns its exit status.
func (r *run) wait() int {
	r.t.Helper()
	if r.command.Process == nil {
		require.NoError(r.t, r.command.Start())
	}
	_ = r.command.Wait()
	return r.command.ProcessState.ExitCode()
}

// again runs it in the same cluster.
func (r *run) again(args ...string) (out string, status int) {
	c := exec.Command(r.command.Path, args...)
	c.Dir, c.Env = r.command.Dir, r.command.Env
	b, _ := c.CombinedOutput()
	return string(b), c.ProcessState.ExitCode()
}

func (r *run) calls() string {
	b, _ := os.ReadFile(filepath.Join(r.directory, "calls"))
	return string(b)
}

// await waits until the calls contain something.
func (r *run) await(what string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return strings.Contains(r.calls(), what) }, testenv.Patience, 5*time.Millisecond, "%s: %s", what, r.calls())
}

// TestFirstRequest: the first request adds one container of the program's user and group, with the restricted profile, and the verb with
// its flags arrives there. The second one uses it again.
func TestFirstRequest(t *testing.T) {
	c := testCluster()
	c.Polls = 2
	r := newRun(t, c, "trace", "-p", "shop", "shop:*", "-w", "status >= 500", "--number", "2", "-v", "--context", "x", "--as=ann", "--kubeconfig=k")
	require.Zero(t, r.wait(), r.err.String())
	assert.Equal(t, "trace --where=status >= 500 --number=2 --verbose=true -- shop:*\n", r.out.String())
	calls := r.calls()
	assert.Contains(t, calls, "--image=agent:1 --image-pull-policy=IfNotPresent --target=app --container=stapsdt-")
	assert.Contains(t, calls, "--profile=restricted")
	assert.Contains(t, calls, `custom {"securityContext":{"runAsUser":1000,"runAsGroup":2000,"allowPrivilegeEscalation":false},"terminationMessagePolicy":"FallbackToLogsOnError"}`)
	assert.Contains(t, calls, " -- /stapsdt inpod wait --container="+shopID+" --memory=67108864 --alone\n")
	assert.Contains(t, calls, "/stapsdt inpod ask --container="+shopID+" --memory=67108864 --alone --pod=default/shop/app --node=n1 -- trace")
	for line := range strings.Lines(calls) {
		if !strings.HasPrefix(line, "custom") {
			assert.Contains(t, line, "--context=x --as=ann --kubeconfig=k")
		}
	}
	assert.Contains(t, r.err.String(), "stapsdt: the request runs in the container stapsdt-")

	out, status := r.again("count", "-p", "shop/app", "shop:*")
	assert.Zero(t, status)
	assert.Equal(t, "count -- shop:*\n", out)
	assert.Equal(t, 1, strings.Count(r.calls(), " inpod wait "), "it was used again")
}

// TestUser: the user and the group of the program are found in one place after another.
func TestUser(t *testing.T) {
	var unknown owner
	for name, test := range map[string]struct {
		change   func(*cluster)
		custom   string
		added    int
		unwanted string
	}{
		"the pod's": {func(c *cluster) { c.Pods[0].Spec.SecurityContext = c.Pods[0].Spec.Containers[0].SecurityContext }, `"runAsUser":1000,"runAsGroup":2000`, 1, " cat "},
		"the status's": {func(c *cluster) {
			_ = json.Unmarshal([]byte(`{"linux":{"uid":1000,"gid":2000}}`), &c.Pods[0].Status.ContainerStatuses[0].User)
		}, `"runAsUser":1000,"runAsGroup":2000`, 1, " cat "},
		"a look":         {func(c *cluster) { c.Cat = true }, `"runAsUser":1000,"runAsGroup":2000`, 1, ""},
		"another's look": {func(*cluster) {}, `"runAsUser":1000,"runAsGroup":2000`, 2, ""},
		"only the user": {func(c *cluster) {
			c.Pods[0].Spec.SecurityContext.User = testCluster().Pods[0].Spec.Containers[0].SecurityContext.User
		}, `"runAsUser":1000,"runAsGroup":2000`, 2, ""},
		"the agent's look": {func(c *cluster) { c.Pods = append(c.Pods, testCluster().Pods[1]) }, `"runAsUser":1000,"runAsGroup":2000`, 1, " cat "},
		"root":             {func(c *cluster) { c.Cat, c.User, c.Group = true, 0, 0 }, `"runAsUser":0,"runAsGroup":0`, 1, "--profile=restricted"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCluster()
			c.Pods = c.Pods[:1] // no agent
			test.change(&c)
			c.Pods[0].Spec.Containers[0].SecurityContext = unknown
			r := newRun(t, c, "trace", "-p", "shop", "shop:*", "--image", "i")
			require.Zero(t, r.wait(), r.err.String())
			assert.Contains(t, r.calls(), test.custom)
			assert.Equal(t, test.added, strings.Count(r.calls(), " inpod wait "), r.calls())
			if test.unwanted != "" {
				assert.NotContains(t, r.calls(), test.unwanted)
			}
		})
	}
}

// TestSilent: a program that does not listen gets one waiting container if only that can tell, and none if the agent can.
func TestSilent(t *testing.T) {
	for _, agents := range []int{0, 1} {
		c := testCluster()
		c.Listens, c.Pods = false, c.Pods[:1+agents]
		r := newRun(t, c, "trace", "-p", "shop", "shop:*", "--image", "i")
		status := r.wait()
		out, same := r.again(r.command.Args[1:]...)
		assert.Equal(t, status, same, out)
		assert.Equal(t, 1-agents, strings.Count(r.calls(), " inpod wait "), r.calls())
		assert.Equal(t, 4*(1-agents), status, r.err.String())
	}
}

// TestNoContainer: no container is added to a pod in which it would be of no use.
func TestNoContainer(t *testing.T) {
	const mayNot = "stapsdt: you may not run commands in pods of the namespace default: this takes the right to create pods/exec\n"
	limit := func(at *resources, memory string) { at.Limits = map[string]string{"memory": memory} }
	for name, test := range map[string]struct {
		change func(*cluster)
		status int
		said   string
		added  int
	}{
		"no right": {func(c *cluster) { c.Refused = map[string]string{"exec": "Error from server (Forbidden): x"} }, 4, mayNot, 0},
		"a small container": {func(c *cluster) { limit(&c.Pods[0].Spec.Containers[0].Resources, "16Mi") }, 1,
			"stapsdt: the memory limit is too low: default/shop may use 16777216 bytes, but a request in the pod needs 20971520; and no node agent runs", 0},
		"a small pod": {func(c *cluster) { limit(&c.Pods[0].Spec.Resources, "19Mi") }, 1, "may use 19922944 bytes", 0},
		"a pod":       {func(c *cluster) { limit(&c.Pods[0].Spec.Resources, "20Mi") }, 0, "", 1},
	} {
		c := testCluster()
		c.Pods = c.Pods[:1]
		test.change(&c)
		r := newRun(t, c, "count", "-p", "shop", "shop:*", "--image", "i")
		require.Equal(t, test.status, r.wait(), "%s: %s", name, r.err.String())
		require.Contains(t, r.err.String(), test.said, name)
		require.Equal(t, test.added, strings.Count(r.calls(), " inpod wait "), name)
	}
}

// TestWay: what is asked where, and what is said if it cannot be.
func TestWay(t *testing.T) {
	const forbidden = `Error from server (Forbidden): pods "shop" is forbidden: User "ann" cannot patch resource "pods/ephemeralcontainers" in API group "" in the namespace "default"`
	for name, test := range map[string]struct {
		change func(*cluster)
		args   string
		status int
		calls  string // what they contain at the end
		said   string
	}{
		"silent":                    {func(c *cluster) { c.Listens = false }, "trace shop:*", 0, "stapsdt-xyz --container=stapsdt -- /stapsdt inpod ask --container=" + shopID + " --memory=25165824 --limit=134217728 --pod=default/shop/app --node=n1 --", ""},
		"silent list without agent": {func(c *cluster) { c.Listens = false; c.Pods = c.Pods[:1] }, "list --image i", 0, "--alone --pod=default/shop/app --node=n1 -- list --", ""},
		"kernel":                    {func(*cluster) {}, "trace shop:* --via kernel", 0, "ask --container=" + shopID + " --memory=25165824 --limit=134217728 --pod=default/shop/app --node=n1 -- trace --via=kernel", ""},
		"socket":                    {func(c *cluster) { c.Listens = false }, "trace shop:* --via socket", 4, "", "stapsdt: the program does not listen: start it with STAPSDT_SOCKET=1, which probeenv.Load and the C library obey, or let it call probesock.Listen\n"},
		"no socket":                 {func(c *cluster) { c.Listens, c.Asked = false, true }, "trace shop:* --via socket", 4, "", "stapsdt: the program does not listen: its environment has STAPSDT_SOCKET=1, but it has not made its socket. Its log has the reason"},
		"no agent":                  {func(c *cluster) { c.Listens = false; c.Pods = c.Pods[:1] }, "trace shop:* --image i", 4, "", "does not listen: start it with STAPSDT_SOCKET=1, which probeenv.Load and the C library obey, or let it call probesock.Listen; and no node agent runs on the node n1"},
		"no right":                  {func(c *cluster) { c.Refused = map[string]string{"debug": forbidden}; c.Pods = c.Pods[:1] }, "trace shop:* --image i", 4, "", "stapsdt: you may not add a container to pods of the namespace default: this takes the right to patch pods/ephemeralcontainers (docs/kubernetes.md has a role for it)"},
		"no right but agent":        {func(c *cluster) { c.Refused = map[string]string{"debug": forbidden} }, "trace shop:* -v", 0, "stapsdt-xyz", "stapsdt: the request runs in the node agent stapsdt/stapsdt-xyz\n"},
		"no image":                  {func(c *cluster) { c.Pods = c.Pods[:1] }, "list", 1, "", "stapsdt: no image for the waiting container: give --image or set STAPSDT_IMAGE (there is no node agent in the namespace stapsdt)\n"},
		"agents unread": {func(c *cluster) {
			c.Refused = map[string]string{"agents": `Error from server (Forbidden): pods is forbidden`}
		}, "list", 4, "", "STAPSDT_IMAGE (you may not list the pods of the node agent in the namespace stapsdt: kubectl: pods is forbidden)\n"},
		"policy": {func(c *cluster) {
			c.Refused = map[string]string{"debug": `Error from server (Forbidden): pods "shop" is forbidden: violates PodSecurity "restricted:latest": x`}
			c.Pods = c.Pods[:1]
		}, "list --image i", 4, "", `the waiting container was refused: kubectl: pods "shop" is forbidden: violates PodSecurity "restricted:latest": x`},
		"no exec": {func(c *cluster) {
			c.Refused = map[string]string{"exec": `Error from server (Forbidden): pods "shop" is forbidden: User "ann" cannot create resource "pods/exec"`}
		}, "list", 4, "", `stapsdt: you may not run commands in pods of the namespace default: this takes the right to create pods/exec`},
		"image": {func(c *cluster) {
			_ = json.Unmarshal([]byte(`{"running":null,"waiting":{"reason":"ErrImagePull","message":"no such host"}}`), &c.Start)
			c.Pods = c.Pods[:1]
		}, "list --image i", 1, "", "stapsdt: the waiting container (image i) does not start: ErrImagePull: no such host\n"},
		"deadline": {func(c *cluster) { c.Polls = 100; c.Pods = c.Pods[:1] }, "list --image i --start-timeout 1s", 1, "", "stapsdt: the waiting container (image i) has not started within 1s: ContainerCreating\n"},
		"hidden":   {func(c *cluster) { c.Hidden = true; c.Pods = c.Pods[:1] }, "list --image i", 1, "", "the program has capabilities, or has forbidden others to look at it"},
		"no pod":   {func(c *cluster) { c.Pods = c.Pods[1:] }, "list", 3, "", `stapsdt: kubectl: pods "shop" not found`},
		"not running": {func(c *cluster) {
			_ = json.Unmarshal([]byte(`{"waiting":{"reason":"CrashLoopBackOff"},"running":null}`), &c.Pods[0].Status.ContainerStatuses[0].State)
		}, "list", 1, "", "stapsdt: the container app of the pod default/shop is not running: CrashLoopBackOff"},
		"small pod":       {func(c *cluster) { c.Pods[0].Spec.Containers[0].Resources.Limits = map[string]string{"memory": "64Mi"} }, "list", 0, "--memory=25165824 --limit=67108864 --shared --alone --pod=default/shop/app --node=n1 -- list", ""},
		"another version": {func(c *cluster) { c.Behind = 1 }, "list --image i", 1, "", "of the pod default/shop has another version of stapsdt, or another command; and the node agent stapsdt/stapsdt-xyz has another"},
		"short memory": {func(c *cluster) {
			c.Refused = map[string]string{"look": "stapsdt: the pod is short of memory: x\ncommand terminated with exit code 1"}
			c.Pods = c.Pods[:1]
		}, "list --image i", 1, "", "stapsdt: the pod is short of memory: x; and no node agent"},
		"shared PIDs": {func(c *cluster) { c.Pods[0].Spec.ShareProcessNamespace = true }, "list", 0, "--memory=67108864 --pod=default/shop/app --node=n1 -- list", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCluster()
			test.change(&c)
			r := newRun(t, c, append(strings.Fields(test.args), "-p", "shop")...)
			require.Equal(t, test.status, r.wait(), r.err.String())
			assert.Contains(t, r.calls(), test.calls)
			assert.Contains(t, r.err.String(), test.said)
			assert.Equal(t, test.said != "", r.err.Len() > 0, r.err.String())
			assert.LessOrEqual(t, strings.Count(r.err.String(), "\n"), 1, "one sentence")
		})
	}
}

// TestStatus: the exit status and the messages of the command in the pod are the plugin's.
func TestStatus(t *testing.T) {
	for probe, test := range map[string]struct {
		status   int
		out, err string
	}{
		"status:3":        {3, "", "stapsdt: no file of the process has such a probe\n"},
		"killed:137":      {1, "", "stapsdt: the command in the pod was killed, probably because the pod was short of memory\n"},
		"lost:connection": {1, "an event\n", "stapsdt: the connection to the pod was lost: kubectl: error reading from error stream: unexpected EOF\n"},
	} {
		r := newRun(t, testCluster(), "trace", "-p", "shop", probe)
		assert.Equal(t, test.status, r.wait(), probe)
		assert.Equal(t, test.out, r.out.String(), probe)
		assert.Equal(t, test.err, r.err.String(), probe)
	}
}

// TestSignal: a signal, also one to the whole process group as of Ctrl-C, lets the command in the pod end with its result.
func TestSignal(t *testing.T) {
	for _, group := range []bool{false, true} {
		r := newRun(t, testCluster(), "trace", "-p", "shop", "until:stopped")
		r.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		require.NoError(t, r.command.Start())
		r.await("until:stopped")
		pid := r.command.Process.Pid
		if group {
			pid = -pid
		}
		require.NoError(t, syscall.Kill(pid, syscall.SIGINT))
		require.Zero(t, r.wait(), r.err.String())
		assert.Equal(t, "an event\nthe result\n", r.out.String())
		assert.NotContains(t, r.calls(), "the input has ended", "a line was sent, and that of the plugin is /dev/null")
	}
}

// TestSecondSignal: one that does not end is killed by a second signal.
func TestSecondSignal(t *testing.T) {
	r := newRun(t, testCluster(), "trace", "-p", "shop", "never:ends")
	require.NoError(t, r.command.Start())
	r.await("never:ends")
	require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
	r.await("a line was sent")
	require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
	assert.Equal(t, 1, r.wait())
}

// TestKilled: a plugin that is killed leaves nothing running, because the input of the command in the pod ends.
func TestKilled(t *testing.T) {
	r := newRun(t, testCluster(), "trace", "-p", "shop", "until:stopped")
	require.NoError(t, r.command.Start())
	r.await("until:stopped")
	require.NoError(t, r.command.Process.Kill())
	r.await("the input has ended")
	_ = r.wait()
}

// TestRecording: a recording that does not arrive whole is fetched again, and is otherwise not there.
func TestRecording(t *testing.T) {
	for name, test := range map[string]struct {
		short, changed, status int
		said                   string
	}{
		"whole": {}, "short twice": {short: 2}, "changed once": {changed: 1},
		"always short":   {100, 0, 1, "fetch the recording: it arrived incomplete: 45000 of 90000 bytes"},
		"always changed": {0, 100, 1, "fetch the recording: it arrived changed: its SHA-256 is "},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCluster()
			c.Short, c.Changed = test.short, test.changed
			c.Pods[0].Spec.Containers[0].Resources.Limits = map[string]string{"memory": "64Mi"}
			r := newRun(t, c, "record", "-p", "shop", "shop:*", "-O", "shop.rec")
			require.NoError(t, r.command.Start())
			r.await("-- record")
			require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
			require.Equal(t, test.status, r.wait(), r.err.String())
			assert.Contains(t, r.calls(), "-- record --size=8388608 -- shop:*")
			assert.Contains(t, r.calls(), "held until the input ended")
			got, err := os.ReadFile(filepath.Join(r.directory, "shop.rec"))
			left, _ := filepath.Glob(filepath.Join(r.directory, ".shop.rec*"))
			assert.Empty(t, left)
			if test.status != 0 {
				assert.ErrorIs(t, err, os.ErrNotExist)
				assert.Contains(t, r.err.String(), test.said)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, recordingBytes, got)
			assert.Equal(t, test.short+test.changed, strings.Count(r.err.String(), "fetching the recording again"))
		})
	}
}

// TestTimeline: a timeline is written to a file of this machine.
func TestTimeline(t *testing.T) {
	for _, format := range []string{"chrome", "perfetto"} {
		r := newRun(t, testCluster(), "trace", "-p", "shop", "shop:*", "-o", format, "-O", "shop.trace")
		require.Zero(t, r.wait(), r.err.String())
		got, err := os.ReadFile(filepath.Join(r.directory, "shop.trace"))
		require.NoError(t, err)
		assert.Equal(t, "trace --output="+format+" --output-file=- -- shop:*\n", string(got))
	}
}

// TestUsage: wrong command lines.
func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"trace shop:*":                               "no pod: give POD, TYPE/NAME such as deploy/web, or -l SELECTOR",
		"trace -p shop":                              "no probes: give PROVIDER:PROBE",
		"trace -p a/b/c/d x:*":                       "-p takes [NAMESPACE/]POD[/CONTAINER]",
		"trace -p a,b x:*":                           "-p takes one pod",
		"trace -p shop x:* -n 5":                     "-n takes a namespace, as in kubectl: for 5 events, rows or screens, give --number 5",
		"trace -p shop x:* --number five":            `--number takes a number, not "five"`,
		"trace shop x:* -p other":                    `"shop" is neither a PROVIDER:PROBE nor the pod, which -p other names`,
		"trace shop x:* -l app=shop":                 `"shop" cannot be combined with -l or -A`,
		"trace deploy/ x:*":                          `"deploy/" is not TYPE/NAME`,
		"trace pod/shop/app x:*":                     `"pod/shop/app" is not TYPE/NAME: select a container with -c`,
		"trace -p shop x:* -l app=shop":              "-l cannot be combined with -p",
		"trace shop x:* -A":                          `"shop" cannot be combined with -l or -A`,
		"trace -p shop x:* -A":                       "-A is for -l SELECTOR",
		"trace x:* -A -n default -l app=shop":        "-A selects all namespaces, and cannot be combined with -n",
		"trace x:* -A":                               "-A alone would add a container to every pod of the cluster",
		"trace -p a/b/c x:* -c d":                    "-c cannot be combined with a container in -p",
		"trace -a x:*":                               "-a is for the command on a node: give POD, TYPE/NAME such as deploy/web, or -l SELECTOR",
		"count -p shop x:* --from f --via kernel":    "--from reads a recording, which takes no --via",
		"record -p shop x:* --kept -O f":             "--kept fetches a recording as it is: leave out x:*",
		"record -p shop --kept":                      "no file: give -O FILE",
		"count deploy/web x:* --from f":              "--from and --kept are for the recordings of one pod",
		"record -l app=web --kept -O f":              "--from and --kept are for the recordings of one pod",
		"count deploy/web x:* --wait":                "--wait is for one pod: leave it out, because the pods of the Deployment web join when they start",
		"trace -p shop x:* --wher y":                 "unknown flag: --wher: see kubectl stapsdt trace --help",
		"trace -p shop x:* -O f":                     "-O is for -o chrome and -o perfetto",
		"count -p shop go:main.* --via=socket":       "go:main.* takes --via kernel",
		"count -p shop x:* --budget=1% --via=socket": "--budget takes --via kernel",
		"record -p shop x:*":                         "no file: give -O FILE",
		"record -p shop x:* -O f --size many":        "--size takes a number of bytes",
		"trace -p shop x:* --via carrier":            "--via takes kernel or socket",
		"trace -p a/b/c x:* --namespace n":           "-n cannot be combined with a namespace in -p",
		"stack -p shop x:*":                          `there is no command "stack" for pods`,
	} {
		r := newRun(t, testCluster(), strings.Fields(args)...)
		assert.Equal(t, exitUsage, r.wait(), args)
		assert.Contains(t, r.err.String(), "stapsdt: "+want, args)
	}
	r := newRun(t, testCluster(), "list", "-p", "shop")
	require.NoError(t, os.Remove(filepath.Join(r.directory, "kubectl")))
	assert.Equal(t, 1, r.wait())
	assert.Equal(t, "stapsdt: kubectl is not in $PATH\n", r.err.String())
}
