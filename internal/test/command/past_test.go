//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// eachPast runs a test for the kernel and for sockets, with an operator that has three open requests
// before a command looks at it. age is how long they have been open at least. The test reports false
// if the command had no time to read the recording, as on a machine that is too busy, and is run
// again with another operator.
func eachPast(t *testing.T, record bool, f func(t *testing.T, p *tracetest.Process, via string, age func() time.Duration) (read bool)) {
	t.Parallel()
	for _, via := range []string{"kernel", "socket"} {
		t.Run(via, func(t *testing.T) {
			if via == "kernel" {
				testenv.NeedsRoot(t)
			}
			for attempt, read := 0, false; !read; attempt++ {
				require.Less(t, attempt, 5, "the command had no time to read the recording")
				var args []string
				if record {
					args = []string{filepath.Join(t.TempDir(), "operator.rec")}
				}
				p := startOperator(t, args...)
				tell(p, "listen")
				tell(p, "requests 4") // which have ended
				tell(p, "open 3")
				opened := time.Now()
				read = f(t, p, via, func() time.Duration { return time.Since(opened) })
			}
		})
	}
}

// hadTime reports whether a command had time to read the recording.
func hadTime(r result) bool {
	return !strings.Contains(r.stderr, "are not known, because reading recordings took too long")
}

// watchAttached is watch, but waits until the command has attached everything: an operation that ends
// before is only counted. The result has the warnings too.
func watchAttached(t *testing.T, p *tracetest.Process, act func(*tracetest.Process), args ...string) result {
	t.Helper()
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), append(args, "-v", "-p", pid(p))...)), t}
	tr.WaitSaid(regexp.MustCompile("Ctrl-C ends$"), testenv.Patience)
	act(p)
	tr.interrupt()
	return result{stdout: strings.Join(tr.Lines(), "\n") + "\n", stderr: tr.Dump()}
}

// since is the time since when a command knows operations.
type since struct{ Since time.Time }

// TestPastTop: top begins with the operations that the recording of the process has open, shows for how long they have been open, and
// counts their ends like those of others.
func TestPastTop(t *testing.T) {
	eachPast(t, true, func(t *testing.T, p *tracetest.Process, via string, age func() time.Duration) bool {
		least, began := age(), time.Now()
		r := runCommand(t, "top", "-o", "json", "-n", "1", "-i", "100ms", "--by", "path", "--via", via, "-p", pid(p))
		if !hadTime(r) {
			return false
		}
		require.NotContains(t, r.stderr, "are not known")
		s := lastScreen(t, r)
		require.Equal(t, 3, s.Open)
		require.Zero(t, s.Unknown)
		require.Len(t, s.Longest, 3)
		for i, o := range s.Longest {
			require.Equal(t, fmt.Sprint("/open/", i), o.By["path"])
			require.GreaterOrEqual(t, o.Nanoseconds, int64(least))
			require.Equal(t, p.PID(), o.PID)
			require.NotZero(t, o.Goroutine)
			if i > 0 {
				require.LessOrEqual(t, o.Nanoseconds, s.Longest[i-1].Nanoseconds)
			}
		}
		for _, l := range s.Operations {
			require.Equal(t, []int{0, 1}, []int{l.Count, l.Open}, "those that had ended are not counted")
		}
		require.True(t, lines[since](t, r.stdout)[0].Since.Before(began.Add(-least)), "since the recording began")

		least = age()
		r = watchAttached(t, p, func(p *tracetest.Process) {
			tell(p, "close")
			tell(p, "open 1")
			tell(p, "requests 1")
		}, "top", "-o", "json", "operator:request", "--via", via)
		if !hadTime(r) {
			return false
		}
		s = lastScreen(t, r)
		require.Len(t, s.Operations, 1)
		require.Equal(t, []int{4, 1}, []int{s.Operations[0].Count, s.Open})
		require.GreaterOrEqual(t, *s.Operations[0].P99, float64(least)/2, "by its buckets")
		require.Zero(t, s.Before)
		return true
	})
}

// TestPastTree: tree shows the operations that were open when it began with all parts that they have had.
func TestPastTree(t *testing.T) {
	eachPast(t, true, func(t *testing.T, p *tracetest.Process, via string, age func() time.Duration) bool {
		tell(p, "hang 1")
		least := age()
		r := watchAttached(t, p, func(p *tracetest.Process) {
			tell(p, "close")
			tell(p, "requests 1")
		}, "tree", "--open", "-o", "json", "--via", via)
		if !hadTime(r) {
			return false
		}
		all := lines[grown](t, r.stdout)
		require.Len(t, all, 5)
		for i, tree := range all[:3] {
			root := tree.Operations[0]
			require.Equal(t, fmt.Sprint("/open/", i), root.Args["path"])
			require.True(t, root.Ended)
			require.GreaterOrEqual(t, tree.Nanoseconds, int64(least))
		}
		require.Len(t, all[3].Operations, 3)
		hung := all[4].Operations
		require.Len(t, hung, 2)
		require.Equal(t, []any{false, "/hang/0"}, []any{hung[0].Ended, hung[0].Args["path"]})
		require.Equal(t, []any{true, "SELECT 3"}, []any{hung[1].Ended, hung[1].Args["text"]})
		return true
	})
}

// TestPastLatency: latency measures operations that were open when it began.
func TestPastLatency(t *testing.T) {
	eachPast(t, true, func(t *testing.T, p *tracetest.Process, via string, age func() time.Duration) bool {
		least := age()
		args := []string{"latency", "operator:request", "--via", via, "-o", "json"}
		r := runCommand(t, slices.Concat(args, []string{"-p", pid(p), "-d", "100ms"})...)
		if !hadTime(r) {
			return false
		}
		require.NotContains(t, r.stderr, "are not known")
		unpaired := lines[measured](t, r.stdout)[0]
		require.Equal(t, []int{3, 3, 0}, []int{*unpaired.StartsWithoutEnd, unpaired.Open, unpaired.EndsWithoutStart})
		require.Len(t, unpaired.Longest, 3)
		for i, o := range unpaired.Longest {
			require.Equal(t, fmt.Sprint("/open/", i), o.Args["path"])
			require.GreaterOrEqual(t, o.Nanoseconds, int64(least))
		}
		r = watchAttached(t, p, func(p *tracetest.Process) {
			tell(p, "close")
			tell(p, "requests 1")
		}, append(args, "--by", "path", "-w", `path != "/open/1"`)...)
		if !hadTime(r) {
			return false
		}
		all := lines[measured](t, r.stdout)
		counts := map[string]int{}
		for _, row := range all[:len(all)-1] {
			counts[row.By["path"].(string)] = row.Count
		}
		require.Equal(t, map[string]int{"/open/0": 1, "/open/2": 1, "/0": 1}, counts)
		unpaired = all[len(all)-1]
		require.Equal(t, []int{0, 0, 0}, []int{*unpaired.StartsWithoutEnd, unpaired.Open, unpaired.EndsWithoutStart})
		return true
	})
}

// TestPastUnknown: without a recording, the commands state since when they know operations, and how to know earlier ones.
func TestPastUnknown(t *testing.T) {
	eachPast(t, false, func(t *testing.T, p *tracetest.Process, via string, _ func() time.Duration) bool {
		began := time.Now()
		for _, verb := range [][]string{{"top", "-n", "1", "-i", "100ms"}, {"latency", "operator:request", "-d", "100ms"}, {"tree", "-d", "100ms"}} {
			args := append(verb, "--via", via, "-p", pid(p))
			r := runCommand(t, args...)
			const at = `\d\d:\d\d:\d\d`
			require.Regexp(t, `(?m)^stapsdt: operations that began before `+at+` are not known: .*STAPSDT_RECORD=FILE$`, r.stderr)
			switch verb[0] {
			case "top":
				require.Regexp(t, `  0 open \(since `+at+`\)  `, r.stdout)
			case "latency":
				require.Regexp(t, `(?m)^0 starts without an end \(0 still open\); 0 ends without a start; since `+at+`$`, r.stdout)
			case "tree":
				require.Regexp(t, `no tree is shown: no operation has begun since `+at, r.stderr)
				continue
			}
			told := lines[since](t, runCommand(t, append(args, "-o", "json")...).stdout)
			require.WithinRange(t, told[len(told)-1].Since, began, time.Now())
		}
		return true
	})
}

// TestPastFile: while the writer of a recording lives, its open operations have been open until now. After that, the last event is the
// end.
func TestPastFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "operator.rec")
	p := startOperator(t, file)
	tell(p, "open 2")
	opened := time.Now()
	look := func() (longest []int64) {
		for _, o := range lastScreen(t, runCommand(t, "top", "-o", "json", "--from", file)).Longest {
			longest = append(longest, o.Nanoseconds)
		}
		require.Len(t, longest, 2)
		return longest
	}
	for range 2 {
		least := time.Since(opened)
		require.GreaterOrEqual(t, look()[1], int64(least))
		until := runCommand(t, "top", "-o", "json", "--from", file, "--until", "0s")
		require.Zero(t, lastScreen(t, until).Longest[1].Nanoseconds, "until the last event, which is its start")
	}
	open := runCommand(t, "latency", "-o", "json", "operator:request", "--from", file)
	require.GreaterOrEqual(t, lines[measured](t, open.stdout)[0].Longest[1].Nanoseconds, look()[1]/2)
	p.Signal(unix.SIGKILL)
	_ = p.Wait(testenv.Patience)
	require.Zero(t, look()[1], "nothing came after its start")
}
