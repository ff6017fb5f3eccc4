//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/schematest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// objectsSeen checks what the verbs print with -o json against their schema.
type objectsSeen struct {
	*testing.T
	*schematest.Schema
}

// see checks what a verb has printed.
func (s objectsSeen) see(verb, out string) {
	s.Helper()
	require.NotEmpty(s, out, verb)
	for line := range strings.Lines(out) {
		require.NoError(s, s.Check(verb, line))
	}
}

// seeNamed checks what kubectl stapsdt prints of the list of a pod.
func (s objectsSeen) seeNamed(out string) {
	s.Helper()
	name := render.PodName{Namespace: "shop", Pod: "web-0", Container: "app"}
	s.see("list", string(kube.AddPod([]byte(out), name)))
}

// run runs a verb that ends by itself, with the events of pods unless these are nil.
func (s objectsSeen) run(pods replay.Replicas, verb string, args ...string) string {
	s.Helper()
	var out, said bytes.Buffer
	executeFor(pods, append([]string{verb, "-o", "json"}, args...), &out, &said)
	s.Logf("%s %q: %s%s", verb, args, out.String(), said.String())
	s.see(verb, out.String())
	return out.String()
}

// TestObjects: the schema of "stapsdt help json" describes all that the verbs print with -o json, and each of its members is printed.
func TestObjects(t *testing.T) {
	schema, err := schematest.Parse(schemaText())
	require.NoError(t, err)
	s := objectsSeen{t, schema}
	s.seeRecordings()
	s.seeLosses()
	s.seeKeys()
	s.seeReports()
	s.seePods()
	t.Setenv("STAPSDT_DIR", t.TempDir())
	o := newOrders(t)
	s.seeProbes(o)
	testenv.NeedsRoot(t)
	s.seeOperations(o, "kernel")
	s.seeStacks(o)
	s.seeContainer(o)
	s.seeFunctions()
	require.Empty(t, schema.Unseen(), "no line had these members of these types")
}

// seeRecordings sees the recordings of a process without probes: that of an earlier one, and one whose file was deleted.
func (s objectsSeen) seeRecordings() {
	path := filepath.Join(s.TempDir(), "recording")
	provider := stapsdt.NewProvider("objects")
	probe := stapsdt.NewProbe0(provider, "one")
	record := func() *proberec.Recorder {
		r, err := proberec.Create(path, 1<<20, provider)
		require.NoError(s, err)
		r.Start()
		probe.Fire()
		return r
	}
	require.NoError(s, record().Close())
	defer record().Close()
	self := strconv.Itoa(os.Getpid())
	s.seeNamed(s.run(nil, "list", "-p", self))
	require.NoError(s, os.Remove(path))
	s.run(nil, "list", "-p", self)
}

// seeLosses sees what is said of recordings that have lost events, and of operations whose ends may be among these.
func (s objectsSeen) seeLosses() {
	var r eventtest.Recording
	start := r.Probe("p", "op__start", "id", "parent")
	end := r.Probe("p", "op__end", "id")
	fired := func(p *recording.Probe, seconds time.Duration, words ...uint64) eventtest.Fired {
		return eventtest.Fired{Probe: p, At: seconds * time.Second, Words: words}
	}
	r.Head.Dropped = 5
	r.Chunk(0, 3, fired(start, 1, 1, 0), fired(start, 2, 2, 1), fired(start, 3, 3, 0), fired(end, 4, 1))
	r.Chunk(0, 8, fired(start, 5, 4, 3))
	r.Chunk(0, 12)
	path := filepath.Join(s.TempDir(), "recording")
	require.NoError(s, os.WriteFile(path, r.Bytes(), 0o600))
	for _, args := range []string{
		"list", "trace", "count p:* --sum id", "hist p:*start id --linear 2:3:1",
		"latency p:op", "latency p:op --linear 0s:1s:1s", "latency p:op --linear 4s:5s:1s", "top", "tree --open", "postmortem",
	} {
		words := strings.Fields(args)
		s.run(nil, words[0], append(words[1:], "--from", path)...)
	}
}

// seeKeys sees operations with a key of several parts.
func (s objectsSeen) seeKeys() {
	var r eventtest.Recording
	start := r.Probe("p", "op__start", "a", "b")
	r.Probe("p", "op__end", "a", "b")
	r.Chunk(0, 0, eventtest.Fired{Probe: start, At: 1, Words: []uint64{1, 2}})
	path := filepath.Join(s.TempDir(), "recording")
	require.NoError(s, os.WriteFile(path, r.Bytes(), 0o600))
	for _, verb := range []string{"latency", "top", "tree"} {
		require.Contains(s, s.run(nil, verb, "p:op", "--key", "a,b", "--from", path), `"key":[1,2]`)
	}
	r = eventtest.Recording{}
	start = r.Probe("p", "op__start", "id", "parent")
	r.Probe("p", "op__end", "id")
	part := r.Probe("p", "part__start", "textname", "parent")
	r.Probe("p", "part__end", "textname")
	r.Chunk(0, 0, eventtest.Fired{Probe: start, At: 1, Words: []uint64{1, 0}}, eventtest.Fired{Probe: part, At: 2, Texts: []string{"first"}, Words: []uint64{1}})
	require.NoError(s, os.WriteFile(path, r.Bytes(), 0o600))
	require.Contains(s, s.run(nil, "postmortem", path), `"key":"first"`)
}

// seeReports sees what a program with threads was doing when Kubernetes ended it, and one that has fired nothing.
func (s objectsSeen) seeReports() {
	const ended = `{"pod":"shop/web-0/app","reason":"OOMKilled","exitCode":137,"startedAt":"1970-01-01T00:00:00Z","finishedAt":"2100-01-01T00:00:00Z"}`
	chunks := recorder.Chunks(1 << 20)
	memory := make([]byte, recorder.Size(chunks))
	w := recorder.New(memory, chunks, recorder.Options{Foreign: true})
	path := filepath.Join(s.TempDir(), "recording")
	show := func() {
		require.NoError(s, os.WriteFile(path, memory, 0o600))
		s.run(nil, "postmortem", path, "--container-status", ended)
	}
	show()
	numbers := map[string]uint32{}
	for name, other := range map[string]string{"op__start": "parent", "op__end": "error"} {
		args := []recording.Arg{{Name: "id", Kind: kind.Uint64, Type: 8}, {Name: other, Kind: kind.Uint64, Type: 8}}
		numbers[name], _ = w.AddProbe(&recording.Probe{Provider: "p", Name: name, Args: args})
	}
	began := w.Now()
	for _, event := range []struct {
		name  string
		after uint64
		words []uint64
	}{
		{"op__start", 0, []uint64{1, 0}}, {"op__start", 1e3, []uint64{2, 1}}, {"op__end", 2e3, []uint64{2, 5}},
		{"op__start", 3e6, []uint64{3, 1}},
	} {
		w.AppendForeign(numbers[event.name], began+event.after, 7, 8, event.words, nil)
	}
	show()
}

// seeProbes sees the probes of this process from all sources, and what is said of its files.
func (s objectsSeen) seeProbes(o *orders) {
	file, page := openSources(s.T, o.fire, o.provider)
	s.run(nil, "trace", "--from", file, "--strlen", "9")
	self := strconv.Itoa(os.Getpid())
	unloaded := stapsdt.NewProvider("unloaded")
	stapsdt.NewProbe0(unloaded, "one")
	defer unloaded.Close()
	recorder, err := proberec.Create(file, 1<<20, o.provider)
	require.NoError(s, err)
	defer recorder.Close()
	s.run(nil, "list", "-p", self)
	s.run(nil, "list", page)
	s.run(nil, "doctor", "-v", "-p", self, "sources:ordre__start")
	s.run(nil, "clean", "-v", "--dry-run", "--older", "0s", filepath.Dir(o.provider.Path()))
	s.seeOperations(o, "socket")
	require.NoError(s, os.Remove(file))
	s.run(nil, "list", "-p", self)

	// The same image in a file that no process has mapped, with a semaphore.
	image, err := os.ReadFile(o.provider.Path())
	require.NoError(s, err)
	at := bytes.Index(image, []byte("sources\x00order__end\x00"))
	copy(image[at-8:at], image[at-24:at-16]) // the address of the site
	path := filepath.Join(s.TempDir(), "semaphore.so")
	require.NoError(s, os.WriteFile(path, image, 0o600))
	s.seeNamed(s.run(nil, "list", path))
}

// seeOperations sees operations that the kernel or a socket delivers.
func (s objectsSeen) seeOperations(o *orders, via string) {
	for _, verb := range []string{"latency", "top", "tree"} {
		args := []string{verb, "sources:order", "-o", "json", "-p", strconv.Itoa(os.Getpid()), "--via", via, "-v"}
		s.see(verb, runSource(s.T, args, announced.MatchString, o.fire))
	}
}

// seeStacks sees stacks, of which one is cut.
func (s objectsSeen) seeStacks(o *orders) {
	args := []string{"stack", "sources:order__end", "-o", "json", "-p", strconv.Itoa(os.Getpid())}
	s.see("stack", runSource(s.T, args, func(string) bool { return o.end.Enabled() }, func() {
		o.fire()
		deep(200, o)
	}))
}

//go:noinline
func deep(n int, o *orders) int {
	if n == 0 {
		o.end.Fire(1, 2, true)
		return 0
	}
	return 1 + deep(n-1, o)
}

// seeContainer sees the probes of this process in a pod, as the links of the kubelet and the control groups show it.
func (s objectsSeen) seeContainer(o *orders) {
	var number [32]byte // of a container that no other test can mean
	_, _ = rand.Read(number[:])
	id := hex.EncodeToString(number[:])
	group := testenv.NeedsGroup(s.T, fmt.Sprintf("kubepods-%d", os.Getpid()))
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(s, err)
	_, home, _ := strings.Cut(strings.TrimSpace(string(own)), "::")
	enter := func(path, pid string) error {
		return os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte(pid), 0)
	}
	self, outside := strconv.Itoa(os.Getpid()), filepath.Join(filepath.Dir(group), home)
	const uid = "3b6e6d3c-4a0e-4b43-8f5c-5a6d3b6e6d3c"
	inner := []string{filepath.Join(group, "pod"+uid), filepath.Join(group, "pod"+uid, id)}
	for _, path := range inner {
		require.NoError(s, os.Mkdir(path, 0o755))
		defer func() { // when the thread that has left it has ended, too
			require.Eventually(s, func() bool {
				// A child that reads for this process is in the group, if it was started there.
				left, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
				for pid := range strings.FieldsSeq(string(left)) {
					_ = enter(outside, pid) // unless it has ended meanwhile
				}
				return os.Remove(path) == nil
			}, testenv.Patience, time.Millisecond)
		}()
	}
	require.NoError(s, enter(inner[1], self))
	defer func() { require.NoError(s, enter(outside, self)) }()
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		runtime.LockOSThread() // for good: the thread ends with its mounts
		err = unix.Unshare(unix.CLONE_NEWNS)
		for _, mount := range []func() error{
			func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
			func() error { return unix.Mount("none", "/var/log", "tmpfs", 0, "") },
			func() error { return os.Mkdir("/var/log/containers", 0o755) },
			func() error {
				return os.Symlink("/var/log/pods/shop_web-0_"+uid+"/app/0.log", "/var/log/containers/web-0_shop_app-"+id+".log")
			},
		} {
			if err == nil {
				err = mount()
			}
		}
		if err == nil {
			s.run(nil, "list", "-p", strconv.Itoa(os.Getpid()))
		}
	}()
	require.NoError(s, <-done)
}

// calls is a program whose functions have constants, panic, and cost much if they are traced.
const calls = `package main

import ("bufio"; "fmt"; "os"; "sync/atomic")

type level int

const (low level = iota; high)

//go:noinline
func part(l level, path string) int {
	if l == high { panic("unwound") }
	return len(path) + int(l)
}

//go:noinline
func whole(l level) (n int) {
	defer func() { recover() }()
	return part(l, "/items")
}

var bits uint32

//go:noinline
func lines(l level, p *uint32) int {
	bits = 1
	atomic.OrUint32(p, uint32(l)) // the kernel refuses its instruction
	n := part(l, "c")
	n += part(low, "d")
	part(low, "e")
	return n + part(l, "f")
}

func main() {
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); { lines(low, &bits); fmt.Println(whole(low), whole(high)) }
		os.Exit(0)
	}()
	if len(os.Args) > 1 { for { whole(low) } }
	select {}
}
`

// seeFunctions sees the functions of a program, its calls, and that a budget detaches from them.
func (s objectsSeen) seeFunctions() {
	program := filepath.Join(s.TempDir(), "calls")
	source := program + ".go"
	require.NoError(s, os.WriteFile(source, []byte(calls), 0o600))
	build := exec.Command("go", "build", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(s, err, "%s", out)
	start := func(args ...string) (pid string, call func()) {
		c := exec.Command(program, args...)
		in, err := c.StdinPipe()
		require.NoError(s, err)
		answers, err := c.StdoutPipe()
		require.NoError(s, err)
		require.NoError(s, c.Start())
		s.Cleanup(func() {
			in.Close()
			_ = c.Wait()
		})
		read := bufio.NewReader(answers)
		return strconv.Itoa(c.Process.Pid), func() {
			_, _ = io.WriteString(in, "\n")
			line, err := read.ReadString('\n')
			require.NoError(s, err)
			require.Equal(s, "6 0\n", line)
		}
	}
	pid, call := start()
	s.seeNamed(s.run(nil, "list", "-p", pid, "go:main.*", "go:runtime.m*"))
	s.seeNamed(s.run(nil, "list", "-p", pid, "go:calls.go:1-100"))
	for _, args := range []string{
		"trace go:main.*", "trace go:calls.go:29", "trace --stack go:main.part:return", "tree go:main.whole go:main.part", "latency go:main.*", "top go:main.*",
		"latency go:main.p* -w l==high", "top go:main.part -w l==high",
		"latency go:main.part --by function --linear 0s:1ns:1ns", "latency go:main.part --by function --linear 1h:2h:1h",
	} {
		args := append(strings.Fields(args), "-p", pid, "-o", "json", "-v")
		s.see(args[0], runSource(s.T, args, announced.MatchString, call))
	}
	busy, _ := start("busy")
	for _, args := range []string{
		"count go:main.part", "hist go:main.part l", "latency go:main.part", "stack go:main.part",
		"latency go:main.part --by function", "top go:main.part",
	} {
		words := strings.Fields(args)
		verb, args := words[0], append(words[1:], "-p", busy, "--budget", "1%", "-d", testenv.Patience.String())
		// A slow machine can detach before a call has returned, which has no row then.
		for range 20 {
			if out := s.run(nil, verb, args...); strings.Contains(out, `"count"`) {
				break
			}
		}
	}
}

// pod plays a pod that has fired events and lost some, and of which more are missing.
type pod struct{ updates chan replay.Update }

// Record implements replay.Replicas.
func (p *pod) Record(*console.Console, *query.Config) ([]replay.Update, <-chan replay.Update, error) {
	chunks := recorder.Chunks(1 << 20)
	at := &replay.Replica{Name: "shop/web-0", Bytes: recorder.Size(chunks), Pod: &recording.Pod{Namespace: "shop", Name: "web-0", Container: "app"}}
	w := recorder.New(make([]byte, at.Bytes), chunks, recorder.Options{Foreign: true})
	for _, name := range []string{"op__start", "op__end"} {
		number, _ := w.AddProbe(&recording.Probe{Provider: "p", Name: name, Args: []recording.Arg{{Name: "id", Kind: kind.Uint64, Type: 8}}})
		w.AppendForeign(number, w.Now(), 7, 8, []uint64{1}, nil)
	}
	w.DropSome(3)
	var sent bytes.Buffer
	sender, err := mirror.NewSender(&sent, w)
	if err == nil {
		_, err = sender.Send()
	}
	if err != nil {
		return nil, nil, err
	}
	frame, err := mirror.Read(&sent)
	p.updates = make(chan replay.Update, 1)
	p.updates <- replay.Update{Replica: at, Unwatched: true}
	return []replay.Update{{Replica: at, Frame: frame}}, p.updates, err
}

// Stop implements replay.Replicas.
func (p *pod) Stop() { close(p.updates) }

// Close implements replay.Replicas.
func (p *pod) Close() {}

// seePods sees the events of pods, and what is missing of them.
func (s objectsSeen) seePods() {
	for _, verb := range []string{"trace", "count", "tree"} {
		s.run(&pod{}, verb, "p:*", "-d", "1ms")
	}
}
