//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// subject is a program that waits for a line before it does what is traced.
type subject struct {
	*tracetest.Process
	t    testing.TB
	path string
}

func launch(t testing.TB, path string, args ...string) *subject {
	t.Helper()
	return &subject{tracetest.Command(t, exec.Command(path, args...)), t, path}
}

// place is where a function is probed, as list says it.
type place struct {
	Probe   string
	Place   string
	Offset  uint64
	Returns []uint64
	Inlined int
}

// list returns what the command lists for specs.
func (s *subject) list(specs ...string) (all []place) {
	s.t.Helper()
	out := tracetest.Must(exec.Command(stapsdt(s.t), append([]string{"list", "-o", "json", "-p", fmt.Sprint(s.PID())}, specs...)...).Output())(s.t)
	for line := range strings.Lines(string(out)) {
		var p place
		objects.Decode(s.t, line, &p)
		all = append(all, p)
	}
	return all
}

// command starts the command with -p for the program, and returns when the kernel has put breakpoints at
// all sites that specs select. If two are at one address, one of them may still be missing.
func (s *subject) command(specs []string, args ...string) *tracetest.Process {
	s.t.Helper()
	var offsets []uint64
	var calls, returns []string
	for _, spec := range specs {
		if name, ok := strings.CutSuffix(spec, ":return"); ok {
			returns = append(returns, name)
		} else {
			calls = append(calls, spec)
		}
	}
	if len(calls) > 0 {
		for _, p := range s.list(calls...) {
			offsets = append(offsets, p.Offset)
		}
	}
	if len(returns) > 0 {
		for _, p := range s.list(returns...) {
			offsets = append(offsets, p.Returns...)
		}
	}
	require.NotEmpty(s.t, offsets)
	c := tracetest.Command(s.t, exec.Command(stapsdt(s.t), append(args, "-p", fmt.Sprint(s.PID()))...))
	for end := time.Now().Add(testenv.Patience); !s.probed(offsets); time.Sleep(10 * time.Millisecond) {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", c.PID()))
		require.NoError(s.t, err, "it ends before it attaches")
		require.True(s.t, time.Now().Before(end), "it does not attach")
	}
	return c
}

// probed reports whether there are breakpoints at all of some offsets in the program's file.
func (s *subject) probed(offsets []uint64) bool {
	for _, at := range offsets {
		var b [4]byte
		if err := tracetest.ReadMapped(s.PID(), s.path, at, b[:]); err != nil || !isBreakpoint(b) {
			return false
		}
	}
	return true
}

// isBreakpoint reports whether an instruction is int3, or the BRK of uprobes on arm64.
func isBreakpoint(b [4]byte) bool {
	return b[0] == 0xcc || b == [4]byte{0xa0, 0x00, 0x20, 0xd4}
}

// stop interrupts the command, and returns what it has printed.
func stop(t testing.TB, c *tracetest.Process) []string {
	t.Helper()
	c.Signal(os.Interrupt)
	require.NoError(t, c.Wait(testenv.Patience), "%s", c.Dump())
	return c.Lines()
}

// row is a row of a table.
type row struct {
	Probe, Operation string
	By               map[string]any
	Count, Sum       int
}

// rows reads those of a table in JSON, without what comes after them.
func rows(t testing.TB, lines []string) (all []row) {
	t.Helper()
	for _, line := range lines {
		objects.Check(t, line)
		var r row
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		require.NoError(t, d.Decode(&r), line)
		if r.Count > 0 {
			all = append(all, r)
		}
	}
	return all
}

// TestMain builds the command. Several runs can use the machine: each names its own processes.
func TestMain(m *testing.M) {
	tracetest.BuildMain(m)
}

// stapsdt returns the path of the command.
func stapsdt(t testing.TB) string {
	return tracetest.Stapsdt(t)
}
