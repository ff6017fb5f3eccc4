//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	sdtprobes "github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// recordable is a provider whose events are recorded in a file.
type recordable struct {
	*proberec.Recorder
	request *sdtprobes.Probe3[string, int, time.Duration]
}

// startRecordable records the events of a provider of this process in a file.
func startRecordable(t *testing.T, provider string) *recordable {
	t.Helper()
	p := sdtprobes.NewProvider(provider)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	r := &recordable{request: sdtprobes.NewProbe3[string, int, time.Duration](p, "request", "path", "status", "took")}
	var err error
	r.Recorder, err = proberec.Create(filepath.Join(t.TempDir(), provider), 1<<20, p)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	r.Start()
	return r
}

// fire fires the i-th of the events that the tests know.
func (r *recordable) fire(i int) {
	r.request.Fire(fmt.Sprintf("/%d", i), 200+100*(i%4), time.Duration(i)*time.Millisecond)
}

// TestFrom: list, trace, count, hist, latency and export read what programs have recorded, several recordings
// in the order of their events.
func TestFrom(t *testing.T) {
	t.Parallel()
	first, second := startRecordable(t, "first"), startRecordable(t, "second")
	for i := range 50 {
		first.fire(2 * i)
		second.fire(2*i + 1)
	}
	from := []string{"--from", first.Path(), "--from", second.Path()}
	run := func(args ...string) string {
		t.Helper()
		r := runCommand(t, append(args, from...)...)
		require.Zero(t, r.status, r.stderr)
		require.Empty(t, r.stderr)
		return r.stdout
	}
	events := lines[event](t, run("trace", "-o", "json"))
	require.Len(t, events, 100)
	for i, e := range events {
		require.Equal(t, []any{[]string{"first", "second"}[i%2], "request", os.Getpid()}, []any{e.Provider, e.Probe, e.PID})
		require.Equal(t, map[string]any{"path": fmt.Sprintf("/%d", i), "status": float64(200 + 100*(i%4)), "took": float64(i * 1e6)}, e.Args)
		require.WithinDuration(t, time.Now(), e.Time, testenv.Patience)
	}
	events = lines[event](t, run("trace", "-o", "json", "*:request", "-w", `status == 500 && strings.HasPrefix(path, "/1")`, "-n", "3"))
	require.Equal(t, []any{"/11", "/15", "/19"}, args(events, "path"))
	events = lines[event](t, run("trace", "-o", "json", "--show", "path,took/time.Millisecond", "--show", "pid", "-n", "2", "-w", "status > 300"))
	require.Equal(t, map[string]any{"path": "/2", "took/time.Millisecond": float64(2), "pid": float64(os.Getpid())}, events[0].Args)
	require.Equal(t, []any{"/2", "/3"}, args(events, "path"))
	require.Regexp(t, `(?m)^\d\d:\d\d:\d\d\.\d{6} +\d+ command\.test +second:request +path="/3" status=500 took=3ms$`, run("trace"))
	require.Regexp(t, `(?m)^ +50 +first:request`, run("count", "first:*"))
	require.Contains(t, run("count", "*:request", "-o", "json", "--by", "status"), `"provider":"second","probe":"request","by":{"status":300},"count":25`)
	require.Contains(t, run("hist", "-o", "json", "*:request", "took", "-w", "status == 200"), `"count":25,"average":48000000`)
	listed := run("list")
	require.Contains(t, listed, first.Path())
	require.Contains(t, listed, "second:request(path string, status int64, took time.Duration)")
}

// TestFromSpeed: a processor reads at least five million events per second into a histogram and writes a
// million as JSON. What counts is its time, whatever else the machine does.
func TestFromSpeed(t *testing.T) {
	testenv.Measures(t, "processor time")
	const events = 2_000_000
	p := sdtprobes.NewProvider("speed")
	defer func() { require.NoError(t, p.Close()) }()
	probe := sdtprobes.NewProbe2[int, int](p, "event", "took", "n")
	r := tracetest.Must(proberec.Create(filepath.Join(t.TempDir(), "speed"), 128<<20, p))(t)
	r.Start()
	for i := range events {
		probe.Fire(i%1000, i)
	}
	require.NoError(t, r.Close())
	require.Contains(t, runCommand(t, "count", "--from", r.Path(), "speed:*", "-o", "json").stdout, fmt.Sprintf(`"count":%d`, events))
	for _, c := range []struct {
		args []string
		most float64 // nanoseconds
	}{
		{[]string{"hist", "speed:*", "took"}, 200},
		{[]string{"trace", "-o", "json"}, 1000},
	} {
		least := math.Inf(1)
		for range 3 {
			cmd := exec.Command(stapsdt(t), append(c.args, "--from", r.Path())...)
			require.NoError(t, cmd.Run())
			least = min(least, float64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())/events)
		}
		testenv.Figure(t, c.args[0], least, c.most, "ns of a processor for an event")
	}
}

// TestFromFollow: with --follow, trace shows what a living process writes, and says how many events it was
// too slow for. When the process has ended, it says so, and shows what the next one writes to the same path.
func TestFromFollow(t *testing.T) {
	t.Parallel()
	r := startRecordable(t, "followed")
	r.fire(0)
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-o", "json", "--from", r.Path(), "--follow")), t}
	tr.WaitLine(`"path":"/0"`, testenv.Patience)
	for i := range 100 {
		r.fire(1 + i)
	}
	tr.WaitLine(`"path":"/100"`, testenv.Patience)
	r.fire(101)
	require.NoError(t, r.Close())
	tr.WaitSaid(regexp.MustCompile(fmt.Sprintf("stapsdt: the recording %s of process %d has ended", r.Path(), os.Getpid())), testenv.Patience)
	next := tracetest.Must(proberec.Create(r.Path(), 1<<20, r.request.Provider()))(t)
	next.Start()
	tr.WaitSaid(regexp.MustCompile(fmt.Sprintf("stapsdt: %s is another recording now, of process %d", r.Path(), os.Getpid())), testenv.Patience)
	r.fire(102)
	tr.WaitLine(`"path":"/102"`, testenv.Patience)
	require.NoError(t, next.Close())
	interrupt(t, tr)
	var seen []any
	for _, line := range tr.Lines() {
		if strings.HasPrefix(line, "{") {
			seen = append(seen, args(lines[event](t, line), "path")...)
		}
	}
	require.Len(t, seen, 103)
	require.Equal(t, []any{"/100", "/101", "/102"}, seen[100:])
}

// TestFromStrangers: what is no recording, or not a whole one, ends with a sentence.
func TestFromStrangers(t *testing.T) {
	t.Parallel()
	r := startRecordable(t, "stranger")
	r.fire(0)
	whole := tracetest.Must(os.ReadFile(r.Path()))(t)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	version := append([]byte(nil), whole...)
	version[8] = 9
	for path, want := range map[string]string{
		file("empty", nil): "this is not a recording",
		file("text", []byte(strings.Repeat("text\n", 9999))): "this is not a recording",
		file("cut", whole[:5000]):                            fmt.Sprintf("this is not a recording, or a damaged one: it has 5000 of %d bytes", len(whole)),
		file("version", version):                             "another version of the format: 9.0, and this program reads 1",
		filepath.Join(dir, "missing"):                        "no such file or directory",
		dir:                                                  "is a directory",
	} {
		for _, verb := range []string{"trace", "list", "count"} {
			args := []string{verb, "--from", path}
			if verb == "count" {
				args = append(args, "*:*")
			}
			got := runCommand(t, args...)
			require.NotZero(t, got.status, "%s %s", verb, path)
			require.Contains(t, got.stderr, want, verb)
			require.Contains(t, got.stderr, path, verb)
		}
	}
	got := runCommand(t, "trace", "--from", r.Path(), "nothing:*")
	require.Equal(t, 3, got.status)
	require.Contains(t, got.stderr, "no recording has nothing:*")
}
