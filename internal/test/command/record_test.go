//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

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

// TestRecord: a recording has the events with their times, processes, threads and arguments, and the other
// commands read it.
func TestRecord(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	path := filepath.Join(t.TempDir(), "recording")
	before := time.Now()
	rec := startRecord(t, p, path, "subject:*")
	tell(p, "fire 5")
	tell(p, "storm 2 50")
	interrupt(t, rec)
	require.Contains(t, rec.Dump(), fmt.Sprintf("recorded 105 events to %s", path))
	events, warnings := recorded(t, path)
	require.Empty(t, warnings)
	require.Len(t, events, 105)
	for i, e := range events[:5] {
		require.Equal(t, "subject:request__done", e.Provider+":"+e.Probe)
		require.Equal(t, p.PID(), e.PID)
		require.DirExists(t, fmt.Sprintf("/proc/%d/task/%d", e.PID, e.TID))
		require.WithinRange(t, e.Time, before, time.Now())
		require.Equal(t, map[string]any{
			"path": fmt.Sprintf("/item/%d", i), "status": float64(i - 3), "elapsed": float64(i * 1e6), "cached": i%2 == 0,
		}, e.Args)
	}
	r := runCommand(t, "count", "-o", "json", "--from", path, "subject:tick")
	require.Contains(t, r.stdout, `"count":100`)
	r = runCommand(t, "hist", "-o", "json", "--from", path, "subject:request__done", "status", "-w", "status < 0")
	require.Contains(t, r.stdout, `"count":3`)
	r = runCommand(t, "list", "--from", path)
	require.Contains(t, r.stdout, "request__done")
	info := tracetest.Must(os.Stat(path))(t)
	require.EqualValues(t, 0o600, info.Mode().Perm())
}

// TestRecordAll: -a records the events of several processes, and each has its own.
func TestRecordAll(t *testing.T) {
	first, second := startGoSubject(t), startGoSubject(t)
	path := filepath.Join(t.TempDir(), "recording")
	rec := startTrace(t, first, "record", "-O", path, "-a", "subject:request__done", "-w", "status == -3")
	require.Eventually(t, func() bool { return isTraced(t, second) }, testenv.Patience, 10*time.Millisecond)
	for _, p := range []*tracetest.Process{first, second} {
		tell(p, "fire 5")
	}
	interrupt(t, rec)
	events, _ := recorded(t, path)
	require.Len(t, of(first, slices.Clone(events)), 1)
	require.Len(t, of(second, slices.Clone(events)), 1)
	require.Len(t, events, 2)
	r := runCommand(t, "count", "-o", "json", "--from", path, "subject:request__done", "--by", "pid")
	require.Len(t, strings.Split(strings.TrimSpace(r.stdout), "\n"), 2, r.stdout)
}

// TestRecordFull: when the file is full, the oldest events are dropped, and all are counted.
func TestRecordFull(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	path := filepath.Join(t.TempDir(), "recording")
	rec := startRecord(t, p, path, "subject:tick", "--size", "256K")
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
	require.Contains(t, second.Dump(), fmt.Sprintf("the earlier recording %s is called %s now", path, old[0]))
	events, _ = recorded(t, old[0])
	require.Len(t, events, 3)
	left := tracetest.Must(os.ReadDir(filepath.Dir(path)))(t)
	require.Len(t, left, 2)
	out := tracetest.Must(exec.Command(stapsdt(t), "trace", "--from", path, "--from", old[0], "-o", "json").Output())(t)
	require.Len(t, lines[event](t, string(out)), 5)
}
