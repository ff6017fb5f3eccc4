//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	sdtprobes "github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// startRecord starts to record events of a subject.
func startRecord(t *testing.T, p *tracetest.Process, path string, args ...string) *tracer {
	t.Helper()
	rec := startTrace(t, p, append([]string{"record", "-O", path, "-p", pid(p)}, args...)...)
	require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, testenv.Patience, time.Millisecond)
	return rec
}

// recorded returns the events of a recording, and what trace says of it.
func recorded(t *testing.T, path string, args ...string) (events []event, warnings string) {
	t.Helper()
	r := runCommand(t, append([]string{"trace", "-o", "json", "--from", path}, args...)...)
	require.Zero(t, r.status, r.stderr)
	return lines[event](t, r.stdout), r.stderr
}

// TestRecordFull: when the file is full, the oldest events are dropped, and all are counted.
func TestRecordFull(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	path := filepath.Join(t.TempDir(), "recording")
	rec := startRecord(t, p, path, "subject:tick", "--size", "256K")
	require.EqualValues(t, 0o600, tracetest.Must(os.Stat(path))(t).Mode().Perm())
	const events = 20_000
	tell(p, fmt.Sprint("storm 1 ", events))
	interrupt(t, rec)
	require.Contains(t, rec.Dump(), fmt.Sprintf("recorded %d events to ", events))
	kept, warnings := recorded(t, path)
	require.Zero(t, kept[0].Provider, "it says how many were lost")
	kept = kept[1:]
	require.Less(t, len(kept), events)
	require.Greater(t, len(kept), 3000)
	require.Contains(t, warnings, fmt.Sprintf("has lost %d events before its first one", events-len(kept)))
	require.Contains(t, rec.Dump(), fmt.Sprintf("the oldest %d of them were dropped", events-len(kept)))
	require.True(t, slices.IsSortedFunc(kept, func(a, b event) int { return a.Time.Compare(b.Time) }))
}

// TestRecordKilled: the recording of a command that was killed is whole, and kept when the next one has the
// same name. One whose probes are not there leaves no file, and an earlier one as it is.
func TestRecordKilled(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	path := filepath.Join(t.TempDir(), "recording")
	rec := startRecord(t, p, path, "subject:*")
	tell(p, "fire 3")
	require.Eventually(t, func() bool {
		events, _ := recorded(t, path)
		return len(events) == 3
	}, testenv.Patience, 10*time.Millisecond)
	r := runCommand(t, "record", "-O", path, "-p", pid(p), "nothing:here")
	require.Equal(t, 3, r.status)
	rec.Signal(syscall.SIGKILL)
	_ = rec.Wait(testenv.Patience)
	events, _ := recorded(t, path)
	require.Len(t, events, 3)

	second := startRecord(t, p, path, "subject:*", "-n", "2")
	tell(p, "fire 2")
	require.NoError(t, second.Wait(testenv.Patience))
	old := tracetest.Must(filepath.Glob(path + "-*"))(t)
	require.Len(t, old, 1)
	require.Contains(t, second.Dump(), fmt.Sprintf("the earlier recording %s is now called %s", path, old[0]))
	events, _ = recorded(t, old[0])
	require.Len(t, events, 3)
	left := tracetest.Must(os.ReadDir(filepath.Dir(path)))(t)
	require.Len(t, left, 2)
	out := tracetest.Must(exec.Command(stapsdt(t), "trace", "--from", path, "--from", old[0], "-o", "json").Output())(t)
	require.Len(t, lines[event](t, string(out)), 5)
}

// requireOrder requires that events of goroutines, whose numbers are arg1, are in the order of their times. An event comes late
// only if its thread was interrupted for longer than the command waits for events, 5 ms, before the event was in the
// memory: the goroutine's next event is then so much later.
func requireOrder(t *testing.T, all []event) {
	next := map[any]time.Time{} // of each goroutine
	for i := len(all) - 1; i >= 0; i-- {
		e := &all[i]
		after, ok := next[e.Args["arg1"]]
		wasInterrupted := !ok || after.Sub(e.Time) > 5*time.Millisecond
		isLate := i > 0 && e.Time.Before(all[i-1].Time)
		require.False(t, isLate && !wasInterrupted, "%v comes late", e)
		require.False(t, ok && after.Before(e.Time), "%v comes before an earlier one of its goroutine", e)
		next[e.Args["arg1"]] = e.Time
	}
}

// TestRecordSocket: what is recorded by a program's socket has all events of each goroutine, whether
// they are copied or, because of a condition, decoded.
func TestRecordSocket(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tell(p, "listen")
	dir := t.TempDir()
	const goroutines, events = 3, 20_000
	var paths []string
	var running []*tracer
	for name, where := range map[string][]string{"copied": nil, "decoded": {"-w", "arg0 >= 0"}} {
		path := filepath.Join(dir, name)
		args := append([]string{"record", "-O", path, "-p", pid(p), "subject:tick", "--via", "socket"}, where...)
		paths = append(paths, path)
		running = append(running, &tracer{tracetest.Command(t, exec.Command(stapsdt(t), args...)), t})
		isWatching := func() bool { _, err := os.Stat(path); return err == nil }
		require.Eventually(t, isWatching, testenv.Patience, time.Millisecond)
	}
	tell(p, fmt.Sprint("storm ", events, " ", goroutines))
	var all [2][]event
	for i, path := range paths {
		interrupt(t, running[i])
		require.Contains(t, running[i].Dump(), fmt.Sprintf("recorded %d events to ", goroutines*events))
		all[i], _ = recorded(t, path)
		requireOrder(t, all[i])
		r := runCommand(t, "count", "-o", "json", "--from", path, "subject:tick", "--by", "goroutine")
		counts := lines[struct{ Count int }](t, r.stdout)
		require.Equal(t, slices.Repeat([]struct{ Count int }{{events}}, goroutines), counts, r.stderr)
	}
	for g := range goroutines {
		var own [2][]event
		for i := range own {
			for _, e := range all[i] {
				if e.Time = (time.Time{}); e.Args["arg1"] == float64(g) {
					own[i] = append(own[i], e)
				}
			}
		}
		require.Len(t, own[0], events)
		require.Equal(t, own[0], own[1])
	}
}

// TestFromFollow: with --follow, trace shows what a living process writes, and says how many events it was
// too slow for. When the process has ended, it says so, and shows what the next one writes to the same path.
func TestFromFollow(t *testing.T) {
	t.Parallel()
	p := sdtprobes.NewProvider("followed")
	defer func() { require.NoError(t, p.Close()) }()
	request := sdtprobes.NewProbe1[string](p, "request", "path")
	r := tracetest.Must(proberec.Create(filepath.Join(t.TempDir(), "followed"), 1<<20, p))(t)
	r.Start()
	fire := func(i int) { request.Fire(fmt.Sprint("/", i)) }
	fire(0)
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-o", "json", "--from", r.Path(), "--follow")), t}
	tr.WaitLine(`"path":"/0"`, testenv.Patience)
	for i := range 100 {
		fire(1 + i)
	}
	tr.WaitLine(`"path":"/100"`, testenv.Patience)
	fire(101)
	require.NoError(t, r.Close())
	tr.WaitSaid(regexp.MustCompile(fmt.Sprintf("stapsdt: the recording %s of process %d has ended", r.Path(), os.Getpid())), testenv.Patience)
	next := tracetest.Must(proberec.Create(r.Path(), 1<<20, p))(t)
	next.Start()
	tr.WaitSaid(regexp.MustCompile(fmt.Sprintf("stapsdt: %s was replaced by a recording of process %d", r.Path(), os.Getpid())), testenv.Patience)
	fire(102)
	tr.WaitLine(`"path":"/102"`, testenv.Patience)
	require.NoError(t, next.Close())
	seen := args(tr.stop(), "path")
	require.Len(t, seen, 103)
	require.Equal(t, []any{"/100", "/101", "/102"}, seen[100:])
}
