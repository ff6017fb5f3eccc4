//go:build linux

package table

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// programCounts are the numbers of silent programs beside which commands wait.
var programCounts = []int{1, 300, 1000}

// waiter is a command that waits for the events of all programs.
type waiter struct {
	what, key string
	args      []string
	ready     *regexp.Regexp // what it says when it has found the programs that are there
}

var waiters = []waiter{
	{"`count -a`, kernel", "countkernel", []string{"count", "-v", "-a", "--via", "kernel", "live:*"}, regexp.MustCompile("Ctrl-C ends")},
	{"`count -a`, socket", "countsocket", []string{"count", "-v", "-a", "--via", "socket", "live:*"}, regexp.MustCompile("Ctrl-C ends")},
	{"`export`, kernel", "exportkernel", []string{"export", "--via", "kernel", "--listen", "127.0.0.1:19965"}, regexp.MustCompile("metrics are at")},
	{"`export`, socket", "exportsocket", []string{"export", "--via", "socket", "--listen", "127.0.0.1:19966"}, regexp.MustCompile("metrics are at")},
}

// figure returns the key of a figure of the command beside a number of programs.
func (w *waiter) figure(n int, what string) string { return fmt.Sprint("command ", w.key, n, what) }

// measurePrograms measures what commands take that watch all programs, while these are silent and other
// processes start.
func (r results) measurePrograms(t testing.TB, rounds int) {
	rules := filepath.Join(*work, "programs.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("metrics:\n  - {name: programs_total, probe: 'live:two', counter: 1}\n"), 0o600))
	for range rounds {
		for _, n := range programCounts {
			r.measureWaiters(t, n, rules)
		}
	}
}

// measureWaiters measures each command beside a number of programs.
func (r results) measureWaiters(t testing.TB, n int, rules string) {
	dir, err := os.MkdirTemp(*images, "") // which tells them from programs that others have started
	require.NoError(t, err)
	t.Setenv("STAPSDT_DIR", dir)
	defer silentPrograms(t, n)()
	for _, w := range waiters {
		args := w.args
		if args[0] == "export" {
			args = append([]string{"export", "-c", rules}, args[1:]...)
		}
		c := tracetest.Command(t, stapsdtCommand(args...))
		c.WaitSaid(w.ready, testenv.Patience)
		time.Sleep(6 * time.Second) // then all programs are watched, and the command looks less often
		before, start := threadsTime(t, c.PID()), time.Now()
		for range 100 {
			require.NoError(t, exec.Command("true").Run())
			time.Sleep(40 * time.Millisecond)
		}
		took := threadsTime(t, c.PID()) - before
		for what, figure := range map[string]float64{
			"share": 100 * took.Seconds() / time.Since(start).Seconds(), "resident": resident(t, c.PID()),
		} {
			key := w.figure(n, what)
			r[key] = append(r[key], figure)
		}
		if strings.HasSuffix(w.key, "socket") {
			require.GreaterOrEqual(t, descriptors(t, c.PID()), n, "it watches all programs")
		}
		c.Signal(os.Interrupt)
		require.NoError(t, c.Wait(testenv.Patience))
	}
}

// programs returns their table: a part of a processor, and resident memory.
func (r results) programs() string {
	var s strings.Builder
	s.WriteString("| silent programs, while 25 other processes start a second |")
	for _, n := range programCounts {
		fmt.Fprintf(&s, " %s | |", grouped(n))
	}
	s.WriteString("\n|---|" + strings.Repeat("--:|--:|", len(programCounts)) + "\n")
	for _, w := range waiters {
		var cells []string
		for _, n := range programCounts {
			cells = append(cells, r.cells(w.figure(n, "share"), percent), r.cells(w.figure(n, "resident"), megabytes))
		}
		row(&s, w.what, cells...)
	}
	return s.String()
}

func megabytes(v float64) string { return fmt.Sprintf("%.0f MB", v) }

// grouped formats a number of up to six digits.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// silentPrograms starts programs that listen and never fire, and returns a function that ends them.
func silentPrograms(t testing.TB, n int) (end func()) {
	in, stdin, err := os.Pipe()
	require.NoError(t, err)
	out, stdout, err := os.Pipe()
	require.NoError(t, err)
	all := make([]*exec.Cmd, n)
	for i := range all {
		all[i] = exec.Command(filepath.Join(*work, "subject-live"), "pace")
		all[i].Stdin, all[i].Stdout = in, stdout
		all[i].Env = append(os.Environ(), "GOMAXPROCS=1")
		require.NoError(t, all[i].Start())
	}
	require.NoError(t, in.Close())
	require.NoError(t, stdout.Close())
	for lines := bufio.NewScanner(out); n > 0; n-- {
		require.True(t, lines.Scan(), "%d programs are not ready", n)
	}
	return func() {
		require.NoError(t, stdin.Close())
		for _, c := range all {
			require.NoError(t, c.Wait())
		}
		_, _ = io.Copy(io.Discard, out)
		require.NoError(t, out.Close())
	}
}

// resident returns the resident memory of a process in MB.
func resident(t testing.TB, pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "VmRSS:")
	require.True(t, found)
	var kilobytes int
	_, err = fmt.Sscan(rest, &kilobytes)
	require.NoError(t, err)
	return float64(kilobytes) / 1000
}

// descriptors returns the number of a process's descriptors.
func descriptors(t testing.TB, pid int) int {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	return len(all)
}
