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
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func bccRows(h host) []row {
	version := h.versionOf("/usr/bin/python3", "-c", "import bcc; print(bcc.__version__)")
	with := ""
	var noTrace, noArgdist func(kind) *obstacle
	if h.newest {
		with = ", with the headers of another kernel"
	}
	switch {
	case h.newest || *guest == "sid":
		noArgdist = always(obstacle{why: "argdist 0.37 cannot count at USDT probes, by an error of its own: it reads the attribute `htab_batch_ops`, " +
			"which it sets at other probes only. Its histograms need the attribute only without `-c`.", proof: h.refuses(`no attribute 'htab_batch_ops'`, argdist)})
	case !headers():
		why := "bcc compiles its programs against the headers of the running kernel, which has none here."
		noTrace = always(obstacle{why, h.refuses(`Unable to find kernel headers`, traceCommand)})
		noArgdist = always(obstacle{why, h.refuses(`Unable to find kernel headers`, argdist)})
	}
	return []row{
		{tool: "bcc tplist", way: "`-p PID`", version: version, works: func(t *testing.T, s *subject) {
			listed(t, s, h.run(t, "tplist-bpfcc", "-p", s.pid()))
		}},
		{tool: "bcc tplist", way: "`-l` of a path", version: version, works: func(t *testing.T, s *subject) {
			listed(t, s, h.run(t, "tplist-bpfcc", "-l", s.path))
		}},
		{tool: "bcc trace", way: "`-p PID`" + with, version: version, cannot: noTrace, inGuest: !h.newest, works: func(t *testing.T, s *subject) {
			require.NoError(t, compare(traceEvents(t, h, s), s.wide, traceArguments, plain))
		}},
		{tool: "bcc argdist", way: "`-p PID -c -C`" + with, version: version, cannot: noArgdist, inGuest: !h.newest, works: func(t *testing.T, s *subject) {
			require.NoError(t, compare(argdistEvents(t, h.run(t, argdist(s)...)), fired.Pair, 2, plain))
		}},
		{tool: "bcc argdist", way: "`-p PID -c -H`" + with, version: version, cannot: noTrace, inGuest: !h.newest, works: func(t *testing.T, s *subject) {
			argdistHistogram(t, h, s)
		}},
	}
}

func listed(t *testing.T, s *subject, out string) {
	for _, name := range s.probeNames() {
		require.Regexp(t, regexp.MustCompile(fmt.Sprintf(`(?m) %s:%s$`, s.provider, name)), out)
	}
}

// traceArguments is how many of them trace has names for.
const traceArguments = 6

// traceEvents ends trace by a signal when it has printed enough. Its own -M does not, because Python
// ignores an exit from a callback.
func traceEvents(t *testing.T, h host, s *subject) (list [][]string) {
	t.Setenv("PYTHONUNBUFFERED", "1")
	words := h.command(traceCommand(s)...)
	h.need(t, words[0])
	tracer := tracetest.Command(t, exec.Command(words[0], words[1:]...))
	for over := time.Now().Add(patience()); len(list) < wanted && time.Now().Before(over) && !tracer.Ended(); time.Sleep(100 * time.Millisecond) {
		list = events(strings.Join(tracer.Lines(), "\n"), ` event (.*)$`)
	}
	tracer.Signal(os.Kill) // Python ignores an interrupt in a callback, too
	_ = tracer.Wait(testenv.Patience)
	if len(list) < wanted {
		t.Log(tracer.Dump())
	}
	return list
}

func traceCommand(s *subject) []string {
	words, arguments := printing(s.wide, traceArguments, func(i int, letter rune) (string, string) {
		return map[rune]string{'s': "%s", 'u': "%llu", 'd': "%lld"}[letter], fmt.Sprintf("arg%d", i+1)
	})
	return []string{"trace-bpfcc", "-p", s.pid(), fmt.Sprintf(`u:%s:%s "event %s", %s`, s.path, s.wide.Name, words, arguments)}
}

// argdist prints after a second, and again after another one, how often each pair of arguments came.
func argdist(s *subject) []string {
	return []string{"argdist-bpfcc", "-i", "1", "-n", "2", "-p", s.pid(),
		"-c", "-C", fmt.Sprintf("u:%s:%s():u64,s64:arg1,arg2", s.path, fired.Pair.Name)}
}

// argdistEvents are the events in what argdist printed: those that came while it read its table the first
// time, as far as it saw them then, and all before. Of the rest, more come while it reads the table.
func argdistEvents(t *testing.T, out string) (list [][]string) {
	tables := strings.Split(out, "EVENT\n")
	require.Len(t, tables, 3)
	numbers := func(table string) (list [][]string) { return events(table, `^\t1 +arg1 = (\d+), arg2 = (-?\d+)$`) }
	number := func(words []string) int { return tracetest.Must(strconv.Atoi(words[0]))(t) }
	last := 0
	for _, words := range numbers(tables[1]) {
		last = max(last, number(words))
	}
	return slices.DeleteFunc(numbers(tables[2]), func(words []string) bool { return number(words) > last })
}

// argdistHistogram has, for a second, the numbers of the events in buckets of powers of two. As no number
// is missing or seen twice, each bucket between the first and the last one is full.
func argdistHistogram(t *testing.T, h host, s *subject) {
	out := h.run(t, "argdist-bpfcc", "-i", "1", "-n", "1", "-p", s.pid(),
		"-c", "-H", fmt.Sprintf("u:%s:%s():u64:arg1", s.path, fired.Pair.Name))
	var counts, sizes []int
	for _, words := range events(out, `^ *(\d+) -> (\d+) *: (\d+) `) {
		var low, high, count int
		_, err := fmt.Sscan(strings.Join(words, " "), &low, &high, &count)
		require.NoError(t, err)
		if count > 0 {
			counts, sizes = append(counts, count), append(sizes, high-low+1)
			require.LessOrEqual(t, count, high-low+1, "%d to %d", low, high)
		}
	}
	require.NotEmpty(t, counts)
	if last := len(counts) - 1; last > 0 {
		require.Equal(t, sizes[1:last], counts[1:last])
	} else {
		require.GreaterOrEqual(t, counts[0], wanted)
	}
}
