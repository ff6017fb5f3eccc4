//go:build linux && (amd64 || arm64)

package command_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestTraceLoses: whatever the rate, what was fired was shown or is said to be lost.
func TestTraceLoses(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	p := startGoSubject(t)
	const each, goroutines = 250_000, 4
	// The reader does not read, so that the pipe and then the ring are full.
	cmd := exec.Command("bash", "-c", `"$@" 2>&1 >/dev/fd/3 | cat; exit 0`, "bash", stapsdt(t), "trace", "-o", "json", "-p", pid(p), "subject:tick")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{w}
	tr := &tracer{tracetest.Command(t, cmd), t}
	require.NoError(t, w.Close())
	require.Eventually(t, func() bool { return isTraced(t, p) }, testenv.Patience, 5*time.Millisecond)
	tell(p, fmt.Sprintf("storm %d %d", each, goroutines))
	p.Hangup()
	shown := 0
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), `{"time"`) { // and not {"lost"
			shown++
		}
	}
	require.NoError(t, tr.Wait(testenv.Patience))
	lost := 0
	for _, line := range tr.Lines() {
		if match := regexp.MustCompile(`^stapsdt: (\d+) events were lost`).FindStringSubmatch(line); match != nil {
			lost += must(strconv.Atoi(match[1]))(t)
		}
	}
	t.Logf("%d shown, %d lost", shown, lost)
	require.NotZero(t, lost)
	require.Equal(t, each*goroutines, shown+lost)
}

// TestAttachTime: the first event within a tenth of a second, and it ends in less time than
// bpftrace takes to begin. Where tracefs is not mounted, reading the kernel's types takes 30 ms
// more.
func TestAttachTime(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Measures(t, "how soon a tracer is attached")
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	p, _ := startCSubject(t)
	var first, all []time.Duration
	for range 5 {
		p.Say("wait")
		start := time.Now()
		cmd := exec.Command(unshare, "--mount", "sh", "-ec", withTracefs+`; exec "$@"`, "sh", stapsdt(t), "trace", "-o", "json", "-p", pid(p), "csubject:other", "-n", "1")
		tr := &tracer{tracetest.Command(t, cmd), t}
		p.Expect("ok", testenv.Patience)
		first = append(first, time.Since(start))
		tell(p, "fire 1")
		require.Len(t, tr.waitForEnd(), 1)
		all = append(all, time.Since(start))
	}
	testenv.Figure(t, "attached", float64(slices.Min(first).Milliseconds()), 100, "ms")
	testenv.Figure(t, "ended", float64(slices.Min(all).Milliseconds()), 430, "ms")
}

// TestTraceRate: a hundred thousand events per second from two threads are all shown.
func TestTraceRate(t *testing.T) {
	testenv.Measures(t, "a rate without losses")
	testenv.NotRaced(t, "it is too slow then")
	p := startGoSubject(t)
	out := filepath.Join(t.TempDir(), "events")
	cmd := exec.Command("bash", "-c", `exec "$@" >"$0"`, out, stapsdt(t), "trace", "-o", "json", "-p", pid(p), "subject:tick")
	tr := &tracer{tracetest.Command(t, cmd), t}
	require.Eventually(t, func() bool { return isTraced(t, p) }, testenv.Patience, 5*time.Millisecond)
	start := time.Now()
	tell(p, "pace 150000 2 3000")
	t.Logf("300000 events in %v", time.Since(start))
	tr.Signal(os.Interrupt)
	require.NoError(t, tr.Wait(testenv.Patience))
	events := lines[event](t, string(must(os.ReadFile(out))(t)))
	require.Len(t, events, 300_000)
	next := map[float64]float64{}
	for i, e := range events {
		require.Equal(t, next[e.Args["arg1"].(float64)], e.Args["arg0"])
		next[e.Args["arg1"].(float64)]++
		require.False(t, i > 0 && e.Time.Before(events[i-1].Time), "in the order of the times")
	}
}
