//go:build linux && (amd64 || arm64)

package command_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
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

// startUnread starts trace, whose output is a pipe that the test may read.
func startUnread(t *testing.T, p *tracetest.Process, args ...string) (tr *tracer, output *os.File) {
	t.Helper()
	testenv.NeedsRoot(t)
	output, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { output.Close() })
	cmd := exec.Command("bash", append([]string{"-c", `exec "$@" >&3`, "bash", stapsdt(t), "trace", "-p", pid(p)}, args...)...)
	cmd.ExtraFiles = []*os.File{w}
	tr = &tracer{tracetest.Command(t, cmd), t}
	require.NoError(t, w.Close())
	require.Eventually(t, func() bool { return isTraced(p) }, testenv.Patience, 5*time.Millisecond)
	return tr, output
}

// lost returns how many events the command has said to be lost.
func (tr *tracer) lost() (n int) {
	tr.t.Helper()
	for _, m := range regexp.MustCompile(`stapsdt: (\d+) events were lost`).FindAllStringSubmatch(tr.Dump(), -1) {
		n += tracetest.Must(strconv.Atoi(m[1]))(tr.t)
	}
	return n
}

// TestTraceLoses: whatever the rate, what was fired was shown, in the order of the times, or is said to be lost.
func TestTraceLoses(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	const each, goroutines = 250_000, 4
	tr, output := startUnread(t, p, "-o", "json", "subject:tick")
	tell(p, fmt.Sprintf("storm %d %d", each, goroutines)) // until the pipe and then the ring are full
	p.Hangup()
	shown := 0
	var last time.Time
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), `{"time":"`); ok { // and not {"lost"
			text, _, _ = strings.Cut(text, `"`)
			at := tracetest.Must(time.Parse(time.RFC3339Nano, text))(t)
			require.False(t, at.Before(last))
			last = at
			shown++
		}
	}
	require.NoError(t, tr.Wait(testenv.Patience))
	t.Logf("%d shown, %d lost", shown, tr.lost())
	require.NotZero(t, tr.lost())
	require.Equal(t, each*goroutines, shown+tr.lost())
}

// TestAttachTime: the first event within a tenth of a second, and it ends in less time than
// bpftrace takes to begin. Where tracefs is not mounted, reading the kernel's types takes 30 ms
// more.
func TestAttachTime(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Measures(t, "how soon a tracer is attached")
	p, _ := startCSubject(t)
	var first, all []time.Duration
	for range 5 {
		p.Say("wait")
		start := time.Now()
		cmd := exec.Command(stapsdt(t), "trace", "-o", "json", "-p", pid(p), "csubject:other", "-n", "1")
		tr := &tracer{tracetest.Command(t, inNamespaces(t, "--mount", withTracefs, cmd)), t}
		p.Expect("ok", testenv.Patience)
		first = append(first, time.Since(start))
		tell(p, "fire 1")
		require.Len(t, tr.waitForEnd(), 1)
		all = append(all, time.Since(start))
	}
	testenv.Figure(t, "attached", float64(slices.Min(first).Milliseconds()), 100, "ms")
	testenv.Figure(t, "ended", float64(slices.Min(all).Milliseconds()), 430, "ms")
}

// TestStuckReader: a signal ends a command whose output nobody reads, and nothing stays attached.
func TestStuckReader(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tr, _ := startUnread(t, p, "subject:*")
	for range 40 { // until the pipe is full
		tell(p, "fire 1000")
	}
	tr.Signal(os.Interrupt)
	require.ErrorContains(t, tr.Wait(testenv.Patience), "exit status 1")
	require.Eventually(t, func() bool { return !isTraced(p) }, testenv.Patience, 10*time.Millisecond)
}

// TestUnnamed: arguments without names have their types, so that texts are shown as texts. str, which arguments without types need, may be
// written of a text too.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t, "unnamed")
	list := runCommand(t, "list", "-p", pid(p))
	require.Contains(t, list.stdout, "  unnamed:dynamic(arg0 int8, arg1 string)\n")
	require.Contains(t, list.stdout, "  unnamed:request__done(arg0 string, arg1 int32, arg2 time.Duration)\n")

	tr := startTrace(t, p, "trace", "-p", pid(p), "unnamed:*", "-n", "2")
	tell(p, "fire /index.html")
	require.NoError(t, tr.Wait(testenv.Patience))
	require.Regexp(t, ` unnamed:request__done +arg0="/index\.html" arg1=200 arg2=1s$`, tr.Lines()[1])
	require.Regexp(t, ` unnamed:dynamic +arg0=-1 arg1="/index\.html"$`, tr.Lines()[2])

	tr = startTrace(t, p, "count", "-p", pid(p), "unnamed:request__done", "--by", "arg0", "-w", `str(arg0) != "/"`)
	tell(p, "fire /index.html")
	tell(p, "fire /about.html")
	tell(p, "fire /index.html")
	tr.interrupt()
	require.Equal(t, []string{
		`COUNT  PROBE                  arg0`,
		`    2  unnamed:request__done  "/index.html"`,
		`    1  unnamed:request__done  "/about.html"`,
	}, tr.Lines())
}
