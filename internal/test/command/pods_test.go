//go:build linux && (amd64 || arm64)

package command_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// node is a machine with pods: control groups as the kubelet makes them, and its links to logs, which the
// command alone sees.
type node struct {
	t     *testing.T
	root  string // of the control groups
	links string // "" before the command was started
}

func newNode(t *testing.T) *node {
	t.Helper()
	testenv.NeedsRoot(t)
	return &node{t: t, root: testenv.NeedsGroup(t, fmt.Sprintf("kubepods-%x", rand.Uint32()))}
}

// command returns the command for a process that sees the links of the node.
func (n *node) command(args ...string) *exec.Cmd {
	script := `mount -t tmpfs none /var/log && mkdir /var/log/containers && exec "$@"`
	c := exec.Command("unshare", append([]string{"-m", "sh", "-c", script, "sh", stapsdt(n.t)}, args...)...)
	c.Env = append(os.Environ(), "STAPSDT_NODE_NAME=n1")
	return c
}

// sees makes the links those that a process of command sees.
func (n *node) sees(p *tracetest.Process) {
	n.links = fmt.Sprintf("/proc/%d/root/var/log/containers", p.PID())
	require.Eventually(n.t, func() bool {
		info, err := os.Stat(n.links)
		return err == nil && info.IsDir()
	}, testenv.Patience, time.Millisecond)
}

// group makes a control group below the root, and those above it.
func (n *node) group(path string) string {
	n.t.Helper()
	at := n.root
	for part := range strings.SplitSeq(path, "/") {
		at = filepath.Join(at, part)
		if os.Mkdir(at, 0o755) == nil {
			made := at
			n.t.Cleanup(func() { _ = os.Remove(made) })
		}
	}
	return at
}

// link makes the link of a container.
func (n *node) link(namespace, pod, uid, container, id string) {
	n.t.Helper()
	name := fmt.Sprintf("%s_%s_%s-%s.log", pod, namespace, container, id)
	require.NoError(n.t, os.Symlink(fmt.Sprintf("/var/log/pods/%s_%s_%s/%s/0.log", namespace, pod, uid, container), filepath.Join(n.links, name)))
}

// inGroup returns the command for a program in a control group.
func inGroup(group string, args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", `group=$1; shift; echo $$ >"$group/cgroup.procs" && exec "$@"`, "sh", group}, args...)...)
}

func newContainerID() string {
	return hex.EncodeToString(make([]byte, 24)) + fmt.Sprintf("%016x", rand.Uint64())
}

// TestExportPods: a series has the names of its pod, from its first scrape on, and goes on when the
// container was restarted. A container that names a group after another's does not take its name.
func TestExportPods(t *testing.T) {
	t.Parallel()
	const uid, other = "3b6e6d3c-4a0e-4b43-8f5c-5a6d3b6e6d3c", "8f4b8f2a0123456789abcdef01234567"
	provider, programs := versions(t, 2)
	program := programs[1]
	n := newNode(t)
	e := newExporter(t, provider, `
metrics:
  - {name: hit_total, counter: 1, probe: "PROVIDER:hit", labels: [namespace, pod, container, container_id]}
  - {name: any_total, counter: 1, probe: "PROVIDER:hit", labels: [namespace, pod, container]}
  - {name: brief_total, counter: 1, probe: "PROVIDER:hit", labels: [namespace, pod, container], expire: 1s}
  - {name: all_total, counter: 1, probe: "PROVIDER:hit", labels: []}
`, n.command)
	e.waitUntilServing()
	n.sees(e.Process)
	run := func(group string) {
		runTool(t, inGroup(group, program, "7", "0"))
	}
	requireTraced(t, program, 1)
	e.waitForSites("brief_total", 1)
	was := e.scrape()["all_total"]

	first, again, victim := newContainerID(), newContainerID(), newContainerID()
	n.link("kube-system", "etcd-node1", other, "etcd", victim)
	one := n.group("pod" + uid + "/" + first)
	run(one)
	run(n.group("pod" + uid + "/" + first + "/kubepods/pod" + other + "/" + victim))
	all := e.scrape()
	require.Equal(t, was+14, all["all_total"])
	require.NotContains(t, fmt.Sprint(all), first, "its name is not known yet")
	require.NotContains(t, fmt.Sprint(all), "etcd")
	n.link("shop", "web-0", uid, "app", first)
	labels := func(id string) string {
		return fmt.Sprintf(`{container="app",container_id=%q,namespace="shop",pod="web-0"}`, id)
	}
	require.EqualValues(t, 14, e.scrape()["hit_total"+labels(first)])
	n.link("shop", "web-0", uid, "app", again)
	run(n.group("pod" + uid + "/" + again))
	all = e.scrape()
	require.EqualValues(t, 7, all["hit_total"+labels(again)])
	require.EqualValues(t, 21, all[`any_total{container="app",namespace="shop",pod="web-0"}`])
	require.Equal(t, was+21, all["all_total"])
	// The first container's part of the series expires, and the series does not fall.
	want := 21.
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		run(n.group("pod" + uid + "/" + again))
		want += 7
		require.Equal(t, want, e.scrape()[`brief_total{container="app",namespace="shop",pod="web-0"}`])
	}
}

// TestTracePods: a command selects processes by the names of pods, of later ones too, and expressions have
// the names.
func TestTracePods(t *testing.T) {
	t.Parallel()
	const uid = "3b6e6d3c-4a0e-4b43-8f5c-5a6d3b6e6d3c"
	n := newNode(t)
	p := tracetest.Command(t, n.command("trace", "-p", "shop/web-*/app", "pods:said", "--show", "workload,pod,node,container,text", "-w", `pod != "web-1" && strings.HasPrefix(workload, "we")`, "-n", "2", "-o", "json"))
	p.WaitSaid(regexp.MustCompile("no process of shop/web-.*/app has pods:said yet"), testenv.Patience)
	n.sees(p)
	for _, pod := range []string{"web-0", "web-1", "db-0", "web-2"} {
		id := newContainerID()
		group := n.group("pod" + uid + "/" + id)
		n.link("shop", pod, uid, "app", id)
		cmd := inGroup(group, tracetest.Build(t, "subject"), "exportee", "pods")
		cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir())
		said := startProcess(t, cmd)
		if strings.HasPrefix(pod, "web") {
			require.Eventually(t, func() bool { return isTraced(said) }, testenv.Patience, 10*time.Millisecond)
		}
		if pod == "db-0" {
			time.Sleep(300 * time.Millisecond) // for a tracer that would take it
		}
		tell(said, "say "+strconv.Quote(pod))
		said.Hangup()
		require.NoError(t, said.Wait(testenv.Patience))
	}
	require.NoError(t, p.Wait(testenv.Patience), "%s", p.Dump())
	var got []string
	for _, line := range p.Lines() {
		var e struct {
			Namespace, Pod, Container string
			Args                      struct{ Workload, Pod, Node, Container, Text string }
		}
		if strings.HasPrefix(line, "{") {
			objects.Decode(t, line, &e)
			require.Equal(t, e.Args.Pod, e.Args.Text)
			require.Equal(t, "web/"+e.Pod+"/n1/app", e.Args.Workload+"/"+e.Args.Pod+"/"+e.Args.Node+"/"+e.Args.Container)
			require.Equal(t, "shop//app", e.Namespace+"//"+e.Container)
			got = append(got, e.Pod)
		}
	}
	require.Equal(t, []string{"web-0", "web-2"}, got)
}

// startContained starts the subject in a control group such as that of a container, whose ID it returns.
func startContained(t *testing.T) (p *tracetest.Process, id string) {
	t.Helper()
	id = newContainerID()
	group := testenv.NeedsGroup(t, "debugged-"+id)
	p = startListening(t)
	require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(pid(p)), 0))
	t.Cleanup(func() {
		p.Signal(os.Kill)
		_ = p.Wait(testenv.Patience)
	})
	return p, id
}

// TestInPod: what kubectl stapsdt runs in a pod finds the container's processes, answers when its standard input ends or says so,
// and keeps a recording until it has been fetched.
func TestInPod(t *testing.T) {
	t.Parallel()
	p, id := startContained(t)
	ask := func(args ...string) *tracetest.Process {
		t.Helper()
		q := tracetest.Command(t, unprivileged(t, stapsdt(t), append([]string{"inpod", "ask", "--container", id, "--pod", "team/web-0/app", "--node", "n1", "--"}, args...)...))
		tell(p, "await")
		return q
	}
	r := runByUser(t, "inpod", "look", "--container", id)
	require.JSONEq(t, fmt.Sprintf(`{"protocol": 3, "resumes": 1, "uid": %[1]d, "gid": %[1]d, "processes": [{"pid": %[2]d, "uid": %[1]d, "gid": %[1]d, "readable": true, "listens": true}]}`, user, p.PID()), r.stdout)

	for _, end := range []func(*tracetest.Process){(*tracetest.Process).Hangup, func(q *tracetest.Process) { q.Say("") }} {
		q := ask("count", "--output=json", "--by=namespace,pod,container,workload,node", "--", "subject:request__done")
		tell(p, "fire 7")
		end(q)
		require.NoError(t, q.Wait(testenv.Patience))
		require.Contains(t, fmt.Sprint(q.Lines()), `"by":{"namespace":"team","pod":"web-0","container":"app","workload":"web","node":"n1"},"count":7}`)
		tell(p, "idle")
	}
	adjusted := ask("trace", "--", "subject:request__done")
	b := tracetest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", adjusted.PID())))(t)
	require.Equal(t, "1000\n", string(b))
	adjusted.Hangup()
	require.NoError(t, adjusted.Wait(testenv.Patience))
	tell(p, "idle")

	q := ask("record", "--size=1048576", "--", "subject:request__done")
	tell(p, "fire 9")
	q.Say("")
	var said struct {
		PID, FD int
		Size    int64
	}
	line := q.WaitMatch(regexp.MustCompile(`^\{"pid".*`), testenv.Patience)
	require.NoError(t, json.Unmarshal([]byte(line[0]), &said))
	sent := runByUser(t, "inpod", "send", strconv.Itoa(said.PID), strconv.Itoa(said.FD))
	require.Zero(t, sent.status)
	unpacked := tracetest.Must(gzip.NewReader(bytes.NewReader([]byte(sent.stdout))))(t)
	recording := tracetest.Must(io.ReadAll(unpacked))(t)
	require.EqualValues(t, said.Size, len(recording))
	file := filepath.Join(t.TempDir(), "fetched.rec")
	require.NoError(t, os.WriteFile(file, recording, 0o600))
	require.Contains(t, runCommand(t, "count", "--from", file, "subject:*", "-o", "json").stdout, `"count":9`)
	require.False(t, q.Ended(), "it holds the recording")
	q.Hangup()
	require.NoError(t, q.Wait(testenv.Patience))

	r = runByUser(t, "inpod", "ask", "--container", hex.EncodeToString(make([]byte, 32)), "--", "list")
	r.ends(t, 3, "no such process of the container 000000000000 is visible here")
}
