//go:build linux

package tracers

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script is a D script of the examples, and a row of their table.
type script struct {
	way string
	// applies reports whether an example has the probes of the script.
	applies func(e *example) bool
	// works fails the test where the script does not show what the example does.
	works func(t *testing.T, e *example)
}

var scripts = []script{
	{"`trace.sh LANGUAGE flow.d PID`", hasFunctions, showsFlow},
	{"`trace.sh LANGUAGE calls.d PID`", hasFunctions, showsCalls},
	{"`trace.sh LANGUAGE time.d PID`", hasFunctions, showsTime},
	{"`-s tasks.d PID`", func(e *example) bool { return e.tasks != "" }, showsTasks},
	{"`-s latency.d PID`", func(e *example) bool { return e.title == "Go" }, showsLatency},
	{"`-s lengths.d PID`", func(e *example) bool { return e.title == "C" }, showsLengths},
}

func hasFunctions(e *example) bool { return e.functions != "" }

func TestScripts(t *testing.T) {
	version := host{newest: true}.versionOf("dtrace", "-V")
	for _, s := range scripts {
		t.Run("DTrace "+version()+" "+s.way, func(t *testing.T) {
			for i := range examples {
				e, cell := &examples[i], result{word: lacking}
				if s.applies(e) {
					cell.word = failed
					t.Run(e.title, func(t *testing.T) {
						s.works(t, e)
						cell = result{works, dtraceRemark}
					})
				}
				scripted.add("DTrace", version(), s.way, e.title, cell)
			}
		})
	}
}

// runScript returns when DTrace has attached the probes of a script.
func runScript(t *testing.T, cmd *exec.Cmd) *tracetest.Process {
	r := tracetest.Command(t, cmd)
	r.WaitLine("Tracing until Ctrl-C", testenv.Patience)
	return r
}

// ofFunctions runs a script for the functions of a program.
func ofFunctions(t *testing.T, e *example, name string) (r *tracetest.Process, p *running) {
	p = e.start(t, e.functions)
	e.does(p, e.flow) // before the script: not shown
	cmd := exec.Command("examples/scripts/trace.sh", e.language, name, strconv.Itoa(p.PID()))
	cmd.Env = append(os.Environ(), "DTRACE="+strings.Join(dtrace(t), " "))
	r = runScript(t, cmd)
	if e.ready != "" {
		e.does(p, e.ready)
	}
	return r, p
}

// withPID runs a script whose argument is the process ID.
func withPID(t *testing.T, p *running, path string) *tracetest.Process {
	words := dtrace(t, "-s", path, strconv.Itoa(p.PID()))
	return runScript(t, exec.Command(words[0], words[1:]...))
}

// stop ends DTrace as Ctrl-C does, and returns what it printed. It does so once, because a second time makes DTrace drop
// what it has counted, and not by SIGINT, which DTrace ignores if it was ignored before, as it is in the background.
func stop(t *testing.T, r *tracetest.Process) string {
	r.Signal(syscall.SIGTERM)
	require.NoError(t, r.Wait(testenv.Patience))
	return strings.Join(r.Lines(), "\n")
}

var flowLine = regexp.MustCompile(`^\d+ \d+   ( *(?:->|<-) \w+) \((.*):-?\d+\)$`)

// showsFlow compares the calls and their depth.
func showsFlow(t *testing.T, e *example) {
	r, p := ofFunctions(t, e, "flow.d")
	e.does(p, e.flow)
	want := strings.Split(strings.TrimSpace(e.calls), "\n")
	var got []string
	shown := func() bool {
		lines := slices.Clone(r.Lines())
		slices.Sort(lines) // all times have as many digits
		got = nil
		for _, line := range lines {
			if m := flowLine.FindStringSubmatch(line); m != nil && strings.HasSuffix(m[2], p.file) && !strings.HasSuffix(m[1], " ready") {
				got = append(got, m[1])
			}
		}
		return len(got) >= len(want)
	}
	if !assert.Eventually(t, shown, testenv.Patience, 10*time.Millisecond) {
		t.Log(r.Dump())
	}
	stop(t, r)
	require.Equal(t, want, got)
}

// showsCalls compares the counts of the functions.
func showsCalls(t *testing.T, e *example) {
	r, p := ofFunctions(t, e, "calls.d")
	e.does(p, e.flow)
	out, want := stop(t, r), map[string]string{}
	for _, call := range regexp.MustCompile(`-> (\w+)`).FindAllStringSubmatch(e.calls, -1) {
		want[call[1]] = strconv.Itoa(strings.Count(e.calls, "-> "+call[1]+"\n"))
	}
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^.* (\w+) +(\d+) *$`).FindAllStringSubmatch(out, -1) {
		if want[m[1]] != "" {
			got[m[1]] = m[2]
		}
	}
	require.NotEmpty(t, want)
	require.Equal(t, want, got, out)
}

// showsTime compares the time of a function that sleeps with that of its caller.
func showsTime(t *testing.T, e *example) {
	r, p := ofFunctions(t, e, "time.d")
	e.does(p, e.nap)
	out := stop(t, r)
	of := func(function string) (calls, exclusive, inclusive int) {
		m := regexp.MustCompile(`(?m)^ *(\d+) +(\d+) +(\d+) +.*\b` + function + `$`).FindStringSubmatch(out)
		require.NotNil(t, m, "no %s in %s", function, out)
		_, err := fmt.Sscan(strings.Join(m[1:], " "), &calls, &exclusive, &inclusive)
		require.NoError(t, err)
		return calls, exclusive, inclusive
	}
	calls, slept, within := of(e.sleeper)
	require.Equal(t, e.sleeps, calls)
	// A level of a recursion that was counted as inclusive too would double it.
	require.GreaterOrEqual(t, slept, e.sleeps*20_000-1000)
	require.InDelta(t, slept, within, 50)
	calls, without, with := of(e.sleeping)
	require.Equal(t, 1, calls)
	require.GreaterOrEqual(t, with, within)
	require.LessOrEqual(t, without, with-within+50)
}

var (
	taskLine = regexp.MustCompile(`(?m)^task (\d+) (\d+) us$`)
	bucket   = regexp.MustCompile(`(?m)^ *(-?\d+) \|@* +(\d+) *$`)
)

// buckets returns the counts of the histograms by their lower ends.
func buckets(t *testing.T, out string) (counts map[int]int, total int) {
	counts = map[int]int{}
	for _, m := range bucket.FindAllStringSubmatch(out, -1) {
		var from, count int
		_, err := fmt.Sscan(m[1]+" "+m[2], &from, &count)
		require.NoError(t, err)
		counts[from] += count
		total += count
	}
	return counts, total
}

// showsTasks compares the tasks, of which each takes 50 ms, and their results, which are the negative numbers of the tasks.
func showsTasks(t *testing.T, e *example) {
	p := e.start(t, e.tasks)
	r := withPID(t, p, "examples/scripts/tasks.d")
	r.WaitMatch(taskLine, testenv.Patience)
	time.Sleep(500 * time.Millisecond) // for more of them
	out := stop(t, r)
	tasks := taskLine.FindAllStringSubmatch(out, -1)
	first := tracetest.Must(strconv.Atoi(tasks[0][1]))(t)
	for i, task := range tasks {
		require.Equal(t, strconv.Itoa(first+i), task[1], out)
		require.GreaterOrEqual(t, len(task[2]), 5, out) // 50 ms, or 49 by a coarse timer
	}
	require.Contains(t, out, fmt.Sprintf("least result -%d\n", first+len(tasks)-1))
	counts, total := buckets(t, out)
	require.Equal(t, len(tasks), total, out)
	require.Positive(t, counts[32768], out)
}

// showsLatency compares the requests of the shop.
func showsLatency(t *testing.T, e *example) {
	p := e.start(t, e.program+" -listen 127.0.0.1:0 -db "+t.TempDir()+"/shop.db")
	url := p.WaitMatch(regexp.MustCompile(`^process \d+ serves (http://\S+)`), testenv.Patience)[1]
	r := withPID(t, p, "examples/http/scripts/latency.d")
	for range 4 {
		get(t, url+"/supplier?ms=40", 200)
	}
	get(t, url+"/items/99", 404)
	out := stop(t, r) + "\n"
	require.Contains(t, out, "GET /supplier, status 200: 4 requests\n")
	require.Contains(t, out, "GET /items/{id}, status 404: 1 requests\n")
	_, histogram, found := strings.Cut(out, "GET /supplier\n")
	require.True(t, found, out)
	histogram, _, _ = strings.Cut(histogram, "\n\n")
	counts, total := buckets(t, histogram)
	require.Equal(t, 4, total, out)
	for from, count := range counts {
		require.True(t, count == 0 || from >= 32768, out)
	}
}

// showsLengths compares the lines that the program counts.
func showsLengths(t *testing.T, e *example) {
	p := e.start(t, e.program)
	require.Eventually(t, func() bool { return p.maps("lines-") }, testenv.Patience, 10*time.Millisecond)
	r := withPID(t, p, "examples/c/lengths.d")
	for _, line := range []string{"a", "bb", "ccc", strings.Repeat("7", 100)} {
		p.Say(line)
	}
	require.Equal(t, "101 bytes: "+strings.Repeat("7", 39), r.Expect("line 4 has ", testenv.Patience))
	counts, total := buckets(t, stop(t, r))
	require.Equal(t, 4, total)
	require.Equal(t, []int{2, 1, 1}, []int{counts[2], counts[4], counts[64]})
}
