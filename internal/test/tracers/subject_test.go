//go:build linux

package tracers

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// subject is a program that fires.
type subject struct {
	kind
	*tracetest.Process
	provider string
	path     string // of the image
	wide     fired.Probe
}

var subjects atomic.Int32

// start starts a subject whose provider has a name that no other has: an image in a file is shared by all that have the
// same probes, and perf and tracefs know probes by their names. It ends in a letter, because DTrace writes the process's
// number after it.
func start(t *testing.T, k kind) *subject {
	t.Helper()
	s := &subject{kind: k, provider: fmt.Sprintf("s%dx%dp", os.Getpid(), subjects.Add(1)), wide: fired.Wide}
	var args []string
	switch {
	case k.isC():
		s.wide = fired.Pair // it fires no other
		args = []string{"-t", "10", s.provider, fired.Pair.Name}
		if !k.memfd {
			args = append([]string{"-f"}, args...)
		}
	case k.memfd:
		args = []string{"-memfd", s.provider}
	default:
		args = []string{s.provider}
	}
	s.Process = tracetest.Command(t, exec.Command(built(k.program), args...))
	// The demo removes its file when it is asked to end, and the Go subject when nobody talks to it any more.
	t.Cleanup(func() {
		s.Hangup()
		if k.isC() {
			s.Signal(syscall.SIGTERM)
		}
		_ = s.Wait(testenv.Patience)
	})
	s.path, _, _ = strings.Cut(s.Expect("loaded as ", testenv.Patience), ";")
	require.Equal(t, k.memfd, strings.HasPrefix(s.path, "/proc/"), s.path)
	return s
}

// pid is the subject's, as tracers take it.
func (s *subject) pid() string { return strconv.Itoa(s.PID()) }

// probeNames are those of the probes that a list must show.
func (s *subject) probeNames() []string {
	if s.isC() {
		return []string{fired.Pair.Name}
	}
	return []string{fired.Pair.Name, fired.DoneName, fired.Wide.Name}
}

// format has a letter for each of the first values of a probe: u unsigned, d signed, s a string.
func format(p fired.Probe, count int) string {
	var b strings.Builder
	for _, v := range p.Values(1)[:min(count, len(p.Types))] {
		switch v.(type) {
		case string:
			b.WriteByte('s')
		case uint8, uint16, uint32, uint64:
			b.WriteByte('u')
		default:
			b.WriteByte('d')
		}
	}
	return b.String()
}

// printing returns what a tracer's language prints the first values of a probe with: the words of the format, and the arguments. value
// returns both for the argument at an index, by its letter.
func printing(p fired.Probe, count int, value func(i int, letter rune) (word, argument string)) (words, arguments string) {
	var all, values []string
	for i, letter := range format(p, count) {
		word, argument := value(i, letter)
		all, values = append(all, word), append(values, argument)
	}
	return strings.Join(all, " "), strings.Join(values, ", ")
}

// wanted is how often an event must have been seen.
const wanted = 5

// events are the words that a tracer printed of each event: what the expression's groups match.
func events(output string, expression string) [][]string {
	var list [][]string
	for _, m := range regexp.MustCompile("(?m)"+expression).FindAllStringSubmatch(output, -1) {
		list = append(list, strings.Fields(strings.Join(m[1:], " ")))
	}
	return list
}

// compare compares events with what was fired: each must have the first count values of its number, which is its first
// word, and no number may be seen twice, or be missing between others. show is how the tracer prints a value, or "" where
// it does not.
//
// Which processor saw an event, and so the order, is no matter.
func compare(list [][]string, p fired.Probe, count int, show func(v any) string) error {
	count = min(count, len(p.Types))
	return compareValues(list, func(n uint64) []any { return p.Values(n)[:count] }, show)
}

// compareValues is compare for any values.
func compareValues(list [][]string, values func(n uint64) []any, show func(v any) string) error {
	count := len(values(1))
	seen := map[uint64]bool{}
	low, high := ^uint64(0), uint64(0)
	for _, words := range list {
		if len(words) != count {
			return fmt.Errorf("%d words where %d were fired: %q", len(words), count, words)
		}
		n, err := strconv.ParseUint(words[0], 0, 64)
		if err != nil {
			return fmt.Errorf("%q: %w", words, err)
		}
		for i, v := range values(n) {
			if want := show(v); want != "" && words[i] != want {
				return fmt.Errorf("argument %d is %q and should be %q: %q", i, words[i], want, words)
			}
		}
		if seen[n] {
			return fmt.Errorf("event %d was seen twice", n)
		}
		seen[n], low, high = true, min(low, n), max(high, n)
	}
	if len(list) < wanted {
		return fmt.Errorf("%d events were seen", len(list))
	}
	if high-low+1 != uint64(len(list)) {
		return fmt.Errorf("%d events were seen of those from %d to %d", len(list), low, high)
	}
	return nil
}

// plain is how most tracers print a value.
func plain(v any) string { return fmt.Sprint(v) }
