//go:build linux

package instrument

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// modes are how a suite runs: without the probes, with them, and with all of them observed.
// The suite's program finds its mode in the environment variable MODE.
var modes = [...]string{"plain", "idle", "traced"}

// suite is the tests of another module, with probes in what they test.
type suite struct {
	// command runs the tests, with -test.v.
	command func(mode string) *exec.Cmd
	// excused reports whether a test may fail in a mode.
	excused func(mode, name string) bool
}

var verdict = regexp.MustCompile(`(?m)^ *--- PASS: (\S+)`)

// run runs tests and returns the names of those that passed. Some of the others need what
// is not here.
func (s *suite) run(mode string) (passed []string, out []byte) {
	out, _ = s.command(mode).CombinedOutput()
	for _, m := range verdict.FindAllSubmatch(out, -1) {
		passed = append(passed, string(m[1]))
	}
	return passed, out
}

// compare requires that what passes without the probes, of which there is more than least,
// also passes with them. It runs all modes at the same time, and returns what the program
// printed while the probes were observed.
func (s *suite) compare(t *testing.T, least int) (out []byte) {
	t.Helper()
	var all sync.WaitGroup
	var passed [len(modes)][]string
	var printed [len(modes)][]byte
	for i, mode := range modes {
		all.Go(func() { passed[i], printed[i] = s.run(mode) })
	}
	all.Wait()
	require.Greater(t, len(passed[0]), least, "%s", printed[0])
	t.Logf("%d pass without the probes", len(passed[0]))
	failed := 0
	for i, mode := range modes[1:] {
		for _, name := range passed[0] {
			if slices.Contains(passed[i+1], name) || s.excused != nil && s.excused(mode, name) {
				continue
			}
			failed++
			t.Logf("%s does not pass %s:\n%s", name, mode, printed[i+1])
		}
	}
	// One may depend on time.
	testenv.Figure(t, "tests that pass without the probes only", float64(failed), 0.5, "")
	return printed[2]
}

// observed returns the numbers of starts and of ends that a program printed after a word.
func observed(t *testing.T, out []byte, word string) (starts, ends int) {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + word + ` (\d+) (\d+)$`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	t.Logf("%s %s starts, %s ends", word, m[1], m[2])
	starts, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	ends, err = strconv.Atoi(string(m[2]))
	require.NoError(t, err)
	return starts, ends
}
