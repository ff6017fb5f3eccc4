//go:build linux

package tracers

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"

	"github.com/stretchr/testify/require"
)

func bccRows(h host) []row {
	version := h.versionOf("/usr/bin/python3", "-c", "import bcc; print(bcc.__version__)")
	with := ""
	var noTrace, noArgdist func(kind) *obstacle
	switch {
	case h.newest:
		with = ", with the headers of another kernel"
		noArgdist = always(obstacle{"This version of argdist fails with every USDT probe, by an error of its own.",
			h.refuses(`no attribute 'htab_batch_ops'`, argdist)})
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
		{tool: "bcc trace", way: "`-p PID`" + with, version: version, cannot: noTrace, works: func(t *testing.T, s *subject) {
			out := h.run(t, traceCommand(s)...)
			require.NoError(t, compare(events(out, ` event (.*)$`), s.wide, traceArguments, plain))
		}},
		{tool: "bcc argdist", way: "`-p PID`" + with, version: version, cannot: noArgdist, works: func(t *testing.T, s *subject) {
			out := h.run(t, argdist(s)...)
			require.NoError(t, compare(events(out, `arg1 = (\d+), arg2 = (-?\d+)$`), fired.Pair, 2, plain))
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

func traceCommand(s *subject) []string {
	var letters, values []string
	for i, letter := range format(s.wide, traceArguments) {
		letters = append(letters, map[rune]string{'s': "%s", 'u': "%llu", 'd': "%lld"}[letter])
		values = append(values, fmt.Sprintf("arg%d", i+1))
	}
	return []string{"trace-bpfcc", "-M", fmt.Sprint(wanted + 1), "-p", s.pid(),
		fmt.Sprintf(`u:%s:%s "event %s", %s`, s.path, s.wide.Name, strings.Join(letters, " "), strings.Join(values, ", "))}
}

// argdist counts, in a second, how often each pair of arguments came.
func argdist(s *subject) []string {
	return []string{"argdist-bpfcc", "-i", "1", "-n", "1", "-p", s.pid(),
		"-C", fmt.Sprintf("u:%s:%s():u64,s64:arg1,arg2", s.path, fired.Pair.Name)}
}
