package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() {
	awaitReader = func() {
		for {
			if left, err := unix.IoctlGetInt(1, unix.TIOCINQ); err != nil || left == 0 {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	roles[asked] = recordShop
	roles[resumer] = func([]string) int {
		if inpod.ResumeStream(os.Stdin, os.Stdout, os.Stderr) != nil {
			return 1
		}
		return 0
	}
}

// recordShop is a request in a pod: it fires events, a burst whenever the server goes down, and some more once it is there again.
func recordShop(command []string) int {
	f := &fake{directory: os.Getenv("FAKE_KUBECTL")}
	if err := f.read(); err != nil {
		return 99
	}
	pod := strings.Split(value(command, "pod"), "/")[1]
	patience, err := time.ParseDuration(value(command, inpod.Resume))
	if err != nil {
		return 99
	}
	chunks := recorder.Chunks(recording.ParseSize(value(command, "size")))
	w := recorder.New(make([]byte, recorder.Size(chunks)), chunks, recorder.Options{Foreign: true})
	number, _ := w.AddProbe(&recording.Probe{Provider: "shop", Name: "done", Args: []recording.Arg{{Name: "n", Kind: kind.Uint64, Type: 8}}})
	stopped, fired := make(chan struct{}), make(chan struct{})
	s, err := inpod.NewStream(patience, func() { close(stopped) })
	if err != nil {
		f.log(pod + ": " + err.Error())
		return 1
	}
	n := uint64(0)
	fire := func(events uint64, what string) {
		for range events {
			w.AppendForeign(number, w.Now(), 7, 8, []uint64{n}, nil)
			n++
		}
		f.log(what + " " + pod)
	}
	fire(eventsOfPod, "sending")
	until := stopped
	if f.Endless {
		until = nil
	}
	go func() {
		for wasDown := false; ; {
			select {
			case <-until:
				w.Close()
				close(fired)
				return
			case <-time.After(5 * time.Millisecond):
			}
			if isDown := f.now().Down; isDown != wasDown {
				wasDown = isDown
				fire(map[bool]uint64{true: f.Burst, false: eventsOfPod}[isDown], fmt.Sprintf("down=%v", isDown))
			}
		}
	}()
	sender, err := mirror.NewSender(s, w)
	if err == nil {
		err = sender.Run(fired)
	}
	s.Close(err == nil)
	f.log("ended " + pod)
	if err != nil {
		f.log("abandoned " + pod)
		return 1
	}
	f.log(fmt.Sprintf("fired in %s: %d", pod, n))
	return 0
}

// resumable returns a run whose pods can resume their streams.
func resumable(t *testing.T, burst uint64, resumeTime time.Duration, args ...string) *run {
	return resumableIn(t, cluster{Burst: burst}, resumeTime, args...)
}

// resumableIn is resumable for requests that behave as a cluster describes.
func resumableIn(t *testing.T, behaves cluster, resumeTime time.Duration, args ...string) *run {
	c := twoNodes(t, "web-1-a", "web-1-b")
	c.Resumes, c.Burst, c.Endless, c.Hung = inpod.Resumes, behaves.Burst, behaves.Endless, behaves.Hung
	c.Silence = behaves.Silence
	r := newRun(t, c, args...)
	r.command.Env = append(r.command.Env, "FAKE_RESUME_TIME="+resumeTime.String())
	if c.Endless {
		r.command.Env = append(r.command.Env, "FAKE_STOP_GRACE=3s")
	}
	if c.Silence > 0 {
		r.command.Env = append(r.command.Env, "FAKE_SILENCE="+c.Silence.String())
	}
	said, err := os.Create(filepath.Join(r.directory, "said"))
	require.NoError(t, err)
	t.Cleanup(func() { said.Close() })
	r.command.Stderr = said
	require.NoError(t, r.command.Start())
	r.bothPods("relayed")
	return r
}

// said returns what a resumable run has written to standard error so far.
func (r *run) said() string {
	b, err := os.ReadFile(filepath.Join(r.directory, "said"))
	require.NoError(r.t, err)
	return string(b)
}

// awaitAgain waits until both pods are watched again.
func (r *run) awaitAgain() {
	for _, pod := range []string{"web-1-a", "web-1-b"} {
		line := "stapsdt: default/" + pod + " is watched again\n"
		require.Eventually(r.t, func() bool { return strings.Contains(r.said(), line) }, testenv.Patience, 5*time.Millisecond, r.said())
	}
}

// change changes the cluster.
func (r *run) change(do func(*cluster)) {
	defer lockCluster(r.directory)()
	f := &fake{directory: r.directory}
	require.NoError(r.t, f.read())
	do(&f.cluster)
	f.save()
}

// setDown lets the server go down or come back. If it goes down, setDown waits until all connections have ended, and the pods have fired.
func (r *run) setDown(isDown bool) {
	before := r.calls()
	r.change(func(c *cluster) { c.Down = isDown })
	for _, what := range []string{"down=true web-1-a", "down=true web-1-b", "broken web-1-a", "broken web-1-b"} {
		require.Eventually(r.t, func() bool {
			return !isDown || strings.Count(r.calls(), what) > strings.Count(before, what)
		}, testenv.Patience, 5*time.Millisecond, what)
	}
}

// fired returns the numbers of events that the pods have fired, once they have ended.
func (r *run) fired() map[string]uint64 {
	all := map[string]uint64{}
	for _, pod := range []string{"web-1-a", "web-1-b"} {
		r.await("fired in " + pod)
		match := regexp.MustCompile(`fired in ` + pod + `: (\d+)`).FindStringSubmatch(r.calls())
		all[pod], _ = strconv.ParseUint(match[1], 10, 64)
	}
	return all
}

// bothPods waits until something was logged about both pods.
func (r *run) bothPods(what string) {
	r.t.Helper()
	r.await(what + " web-1-a")
	r.await(what + " web-1-b")
}

// eventsOf returns how many events of each pod the output of trace has, and requires that they are in order.
func (r *run) eventsOf() map[string]uint64 {
	next := map[string]uint64{}
	for line := range strings.Lines(r.out.String()) {
		var e struct {
			Pod  string
			Args struct{ N uint64 }
		}
		require.NoError(r.t, json.Unmarshal([]byte(line), &e), line)
		require.Equal(r.t, next[e.Pod], e.Args.N, e.Pod)
		next[e.Pod]++
	}
	return next
}

// TestResumed: the events that were fired while the connections were broken arrive once, in their order, and no time is missing, also
// if the user ends the run as soon as the server is there again.
func TestResumed(t *testing.T) {
	r := resumable(t, 5000, time.Hour, "trace", "deploy/web", "shop:done", "-o", "json")
	r.setDown(true)
	r.setDown(false)
	r.awaitAgain()
	r.bothPods("down=false")
	r.setDown(true)
	r.setDown(false)
	require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
	require.Zero(t, r.wait(), r.said())
	got := r.eventsOf()
	assert.Equal(t, r.fired(), got)
	assert.GreaterOrEqual(t, got["web-1-a"], uint64(2*eventsOfPod+2*5000))
	said := r.said()
	assert.NotContains(t, said, "not watched")
	assert.NotContains(t, said, "no longer watched")
	assert.Contains(t, said, "stapsdt: default/web-1-a: the connection to the pod was lost: kubectl: error reading from error stream: unexpected EOF; its events are kept there for 1h0m0s\n")
}

// TestResumedLate: what the recording of a pod has no longer is counted as lost, at that pod.
func TestResumedLate(t *testing.T) {
	r := resumable(t, 200_000, time.Hour, "count", "deploy/web", "shop:done", "-o", "json")
	r.setDown(true)
	r.setDown(false)
	r.awaitAgain()
	r.bothPods("down=false")
	require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
	require.Zero(t, r.wait(), r.said())
	got := map[string]uint64{}
	for line := range strings.Lines(r.out.String()) {
		var row struct {
			By    struct{ Pod string }
			Count uint64
			Pods  []struct {
				Pod  string
				Lost uint64
			}
			Unwatched []any
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row), line)
		require.Empty(t, row.Unwatched)
		if row.By.Pod != "" {
			got[row.By.Pod] += row.Count
		}
		for _, lost := range row.Pods {
			require.Positive(t, lost.Lost)
			got[lost.Pod] += lost.Lost
		}
	}
	require.Contains(t, r.out.String(), `"lost":`)
	require.Equal(t, r.fired(), got)
	require.EqualValues(t, 2*eventsOfPod+200_000, got["web-1-a"])
}

// TestResumedSilent: a connection that has died without an end is replaced.
func TestResumedSilent(t *testing.T) {
	r := resumableIn(t, cluster{Hung: true, Silence: 2 * time.Second}, time.Hour, "trace", "deploy/web", "shop:done", "-o", "json")
	r.bothPods("hung")
	r.awaitAgain()
	require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
	require.Zero(t, r.wait(), r.said())
	assert.Equal(t, r.fired(), r.eventsOf())
	assert.Contains(t, r.said(), "stapsdt: default/web-1-a: the connection to the pod was lost: nothing has come for 2s; its events are kept there for 1h0m0s\n")
	assert.NotContains(t, r.said(), "not watched")
}

// TestStopped: the connections of a plugin that was stopped for longer than a connection may be silent, as by Ctrl-Z, were not lost.
func TestStopped(t *testing.T) {
	r := resumableIn(t, cluster{Silence: 4 * time.Second}, time.Hour, "trace", "deploy/web", "shop:done", "-o", "json")
	require.NoError(t, r.command.Process.Signal(syscall.SIGSTOP))
	time.Sleep(5 * time.Second)
	require.NoError(t, r.command.Process.Signal(syscall.SIGCONT))
	require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
	require.Zero(t, r.wait(), r.said())
	assert.Equal(t, r.fired(), r.eventsOf())
	assert.NotContains(t, r.said(), "not watched")
	assert.NotContains(t, r.calls(), "inpod resume")
}

// TestEndless: requests that go on after the user has ended the run are given up, also if their streams could be resumed, and the results
// are shown.
func TestEndless(t *testing.T) {
	r := resumableIn(t, cluster{Endless: true}, 300*time.Millisecond, "count", "deploy/web", "shop:done", "-o", "json")
	require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
	require.Zero(t, r.wait(), r.said())
	r.bothPods("abandoned")
	assert.Contains(t, r.out.String(), `"count":1000`)
	assert.Contains(t, r.said(), "was not watched from")
}

// TestEndsWithTest: nothing that a test has started outlives it.
func TestEndsWithTest(t *testing.T) {
	r := resumable(t, 0, time.Hour, "count", "deploy/web", "shop:done")
	require.NoError(t, r.command.Process.Kill())
	_ = r.command.Wait()
	require.NoError(t, r.lock.Close())
	require.Eventually(t, func() bool { return len(r.processes()) == 0 }, testenv.Patience, 5*time.Millisecond)
}

// processes returns the PIDs of processes that belong to the run.
func (r *run) processes() (all []string) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(r.t, err)
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), "FAKE_KUBECTL="+r.directory+"\x00") {
			all = append(all, filepath.Base(filepath.Dir(file)))
		}
	}
	return all
}

// TestResumableEnds: the stream of a pod that has ended is not resumed.
func TestResumableEnds(t *testing.T) {
	r := resumable(t, 0, time.Hour, "count", "deploy/web", "shop:done")
	r.change(func(c *cluster) {
		c.Pods = slices.DeleteFunc(c.Pods, func(p pod) bool { return p.Metadata.Name == "web-1-b" })
	})
	require.Eventually(t, func() bool { return strings.Contains(r.said(), "web-1-b has ended") }, testenv.Patience, 5*time.Millisecond)
	require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
	require.Zero(t, r.wait(), r.said())
	assert.NotContains(t, r.said(), "kept there")
	assert.NotContains(t, r.calls(), "inpod resume")
}

// TestNotResumed: a request ends by itself if the plugin does not come back, or comes too late. Then the pod was not watched.
func TestNotResumed(t *testing.T) {
	t.Run("killed", func(t *testing.T) {
		r := resumable(t, 10, 300*time.Millisecond, "count", "deploy/web", "shop:done")
		require.NoError(t, r.command.Process.Kill())
		r.bothPods("abandoned")
	})
	t.Run("late", func(t *testing.T) {
		r := resumable(t, 10, 300*time.Millisecond, "count", "deploy/web", "shop:done", "-o", "json")
		r.setDown(true)
		r.bothPods("abandoned")
		require.NoError(t, os.Remove(filepath.Join(r.directory, "calls")))
		r.setDown(false)
		r.bothPods("relayed")
		require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
		require.Zero(t, r.wait(), r.said())
		assert.Contains(t, r.said(), "stapsdt: default/web-1-a is no longer watched: the connection to the pod was lost: ")
		assert.Contains(t, r.out.String(), `"unwatched":[{"namespace":"default","pod":"web-1-`)
	})
	t.Run("ended while down", func(t *testing.T) {
		r := resumable(t, 10, 300*time.Millisecond, "count", "deploy/web", "shop:done", "-o", "json")
		r.setDown(true)
		require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
		require.Zero(t, r.wait(), r.said())
		r.bothPods("abandoned")
	})
}

// TestEndsAtOnce: a request does not wait for another connection if the plugin has ended as it should.
func TestEndsAtOnce(t *testing.T) {
	for _, args := range []string{"count deploy/web shop:done", "trace deploy/web shop:done --number 5"} {
		r := resumable(t, 0, time.Hour, strings.Fields(args)...)
		if strings.HasPrefix(args, "count") {
			require.NoError(t, r.command.Process.Signal(syscall.SIGINT))
		}
		require.Zero(t, r.wait(), r.said())
		r.bothPods("ended")
		assert.NotContains(t, r.calls(), "inpod resume")
	}
}

// TestOtherResume: a pod with another version of the command is asked as before.
func TestOtherResume(t *testing.T) {
	c := twoNodes(t, "web-1-a", "web-1-b")
	c.Resumes = inpod.Resumes + 1
	r := newRun(t, c, "count", "deploy/web", "shop:done")
	require.NoError(t, r.command.Start())
	require.Zero(t, r.interrupt("web-1-a", "web-1-b"), r.err.String())
	assert.Contains(t, r.calls(), "sent all of web-1-a")
	assert.NotContains(t, r.calls(), "--resume")
}
