//go:build linux && (amd64 || arm64)

package functions

import (
	"bytes"
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

var event = regexp.MustCompile(`^(\d+) (\d+) (\d+ (?:->|<-) \w+) \((.*):(\d+)\)$`)

// flowCalls is how often the program's functions are called by flow.
var flowCalls = map[string]int{"flow": 1, "branch": 1, "leaf": 3, "failing": 1, "down": 0}

func TestCalls(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "calls")
		p.does("flow")
		calls := tracetest.Table(t, tr.Stop(), "calls")
		for function, n := range flowCalls {
			require.Equal(t, n, of(calls, function), "%s: %v", function, calls)
		}
	})
}

// TestFlow: the depth and the order of entries and returns, also by an exception, and their
// places.
func TestFlow(t *testing.T) {
	each(t, flows)
}

func flows(t *testing.T, p *program) {
	tr := p.traced(t, "flow")
	p.does("flow")
	want := []string{"1 -> flow", "2 -> branch", "3 -> leaf", "3 <- leaf", "3 -> leaf", "3 <- leaf", "2 <- branch",
		"2 -> failing", "2 <- failing", "2 -> leaf", "2 <- leaf", "1 <- flow"}
	var got []string
	calls := func() bool {
		got = p.calls(t, tr.Lines())
		return len(got) >= len(want)
	}
	require.Eventually(t, calls, testenv.Patience, 10*time.Millisecond)
	tr.Stop()
	require.Equal(t, want, got)
}

// TestPythons: the versions of Python that pyenv has here, of which those from 3.12 on have other
// hooks.
func TestPythons(t *testing.T) {
	home := tracetest.Must(os.UserHomeDir())(t)
	found := tracetest.Must(filepath.Glob(home + "/.pyenv/versions/3.*/bin/python3"))(t)
	if found = slices.DeleteFunc(found, func(path string) bool { return pythonMinor(path) < 8 }); len(found) == 0 {
		t.Skip("pyenv has no version of Python here")
	}
	testenv.Long(t, "it starts interpreters and tracers")
	testenv.NotRaced(t, "it starts programs in another language, which the detector does not know")
	tracetest.NeedTracefs(t)
	library := library(t)
	for _, path := range found {
		t.Run(fmt.Sprint("3.", pythonMinor(path)), func(t *testing.T) {
			l := table[0]
			l.command = strings.Replace(l.command, "python3", path, 1)
			p := l.start(t, library, l.command)
			p.does("flow")
			flows(t, p)
			p.does("idle")
			flows(t, p) // the hooks are installed again
			p.Hangup()
			require.NoError(t, p.Wait(testenv.Patience))
		})
	}
}

// pythonMinor returns 12 for the path of a Python 3.12 that pyenv has installed.
func pythonMinor(path string) (minor int) {
	_, version, _ := strings.Cut(path, "/versions/3.")
	_, _ = fmt.Sscanf(version, "%d", &minor)
	return minor
}

// stack is what the program's functions belong to: its thread, or in Lua its first coroutine.
func (p *program) stack() string {
	if p.language.name == "lua" {
		return "1"
	}
	return strconv.Itoa(p.PID())
}

// calls returns what flow showed of the functions of the program, but not of ready.
func (p *program) calls(t *testing.T, lines []string) (calls []string) {
	source := tracetest.Must(os.ReadFile(p.path))(t)
	at := 1 + strings.Count(string(source[:bytes.Index(source, []byte(p.language.entry))]), "\n")
	lines = slices.Clone(lines)
	slices.Sort(lines) // all times have as many digits
	for _, line := range lines {
		m := event.FindStringSubmatch(line)
		if m == nil || m[4] != p.path || strings.HasSuffix(m[3], " ready") {
			continue
		}
		require.Equal(t, p.stack(), m[2], line)
		if strings.HasSuffix(m[3], "-> leaf") {
			require.Equal(t, strconv.Itoa(at), m[5], line)
		}
		calls = append(calls, m[3])
	}
	return calls
}

// TestTraceScript runs trace.sh as people do, for probes in a file and for those of the interpreter.
func TestTraceScript(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := tracetest.BpftraceScript(t, exec.Command("sh", trace, p.language.name, "flow", strconv.Itoa(p.PID())))
		require.Eventually(t, func() bool {
			p.does("ready") // Perl asks for a tracer by its processor time, of which flow takes little
			p.does("flow")
			return len(p.calls(t, tr.Lines())) > 0
		}, testenv.Patience, 50*time.Millisecond, "it shows no calls")
		tr.Stop()
	})
}
