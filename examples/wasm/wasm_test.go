//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// host is the program, running.
type host struct {
	*tracetest.Process
	probes string
}

func start(t *testing.T, args ...string) *host {
	t.Helper()
	p := tracetest.Command(t, exec.Command(tracetest.Build(t, "."), args...))
	_, probes, ok := strings.Cut(p.WaitLine(" has its probes in ", testenv.Patience), " has its probes in ")
	require.True(t, ok)
	return &host{p, probes}
}

func (h *host) call(t *testing.T, line string, result int) {
	t.Helper()
	h.Say(line)
	require.Equal(t, fmt.Sprintf("[%d]", result), h.Expect("= ", testenv.Patience))
}

// attach attaches one of the scripts for all languages.
func attach(t *testing.T, h *host, name string) *tracetest.Tracer {
	t.Helper()
	text, options := tracetest.FunctionScript(t, h.Process, "../scripts/trace.sh", "wasm", name)
	return tracetest.Bpftrace(t, text, options...)
}

// requireFlow waits for what the script flow shows, and compares it without the time.
func requireFlow(t *testing.T, tr *tracetest.Tracer, want ...string) {
	t.Helper()
	lines := tr.WaitLines(len(want), testenv.Patience)
	slices.Sort(lines) // all times have as many digits
	for i, l := range lines {
		_, lines[i], _ = strings.Cut(l, " ")
	}
	require.Equal(t, want, lines)
}

func TestFlow(t *testing.T) {
	h := start(t, "-trace")
	h.call(t, "fib 3", 2) // before anybody looks
	tr := attach(t, h, "flow")
	h.call(t, "fib 2", 1)
	// The first three functions are the host's, and no functions of the guest's.
	h.call(t, "nap 1", 2)
	h.Say("divide 1 0")
	h.Expect("wasm error: integer divide by zero", testenv.Patience)
	requireFlow(t, tr,
		"2 1 -> fib (guest:3)",
		"2 2 -> fib (guest:3)",
		"2 2 <- fib (guest:3)",
		"2 2 -> fib (guest:3)",
		"2 2 <- fib (guest:3)",
		"2 2 -> add (guest:4)",
		"2 2 <- add (guest:4)",
		"2 1 <- fib (guest:3)",
		"3 1 -> nap (guest:7)",
		"3 2 -> wait (guest:8)",
		"3 2 <- wait (guest:8)",
		"3 2 -> wait (guest:8)",
		"3 2 <- wait (guest:8)",
		"3 2 -> add (guest:4)",
		"3 2 <- add (guest:4)",
		"3 1 <- nap (guest:7)",
		"4 1 -> divide (guest:5)",
		"4 2 -> quotient (guest:6)",
		"4 2 <- quotient (guest:6)",
		"4 1 <- divide (guest:5)")
	tr.Stop()
}

// TestListensOnlyIfTraced starts the program without being asked to listen: a tracer
// that is there before it sees everything, and one that comes after it nothing.
func TestListensOnlyIfTraced(t *testing.T) {
	t.Setenv("STAPSDT_DIR", filepath.Join(t.TempDir(), "probes"))
	early := start(t)
	// The path by way of the process holds in a chroot too.
	count := fmt.Sprintf(`usdt:/proc/%d/root%s:wasm:function__entry { @entries[pid, str(arg1)] = count(); }`, early.PID(), early.probes)
	tr := tracetest.Bpftrace(t, count)
	late := start(t)
	require.Equal(t, early.probes, late.probes)
	early.call(t, "fib 5", 5)
	late.call(t, "fib 5", 5)
	entries := tracetest.Table(t, tr.Stop(), "entries")
	require.Equal(t, map[string]int{
		fmt.Sprintf("%d, fib", late.PID()): 15,
		fmt.Sprintf("%d, add", late.PID()): 7,
	}, entries)
}
