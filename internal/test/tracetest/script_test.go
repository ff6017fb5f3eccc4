//go:build linux

package tracetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// sayVersion has bpftrace say that it is of another version than it is.
func sayVersion(t *testing.T, minor int) {
	t.Helper()
	bpftrace := os.Getenv("BPFTRACE")
	if bpftrace == "" {
		bpftrace = testenv.NeedsTool(t, "bpftrace", "bpftrace")
	}
	wrapper := filepath.Join(t.TempDir(), "bpftrace.sh")
	script := fmt.Sprintf("case $1 in --version) echo bpftrace v0.%d.0 ;; *) exec %s \"$@\" ;; esac\n", minor, bpftrace)
	require.NoError(t, os.WriteFile(wrapper, []byte(script), 0o600))
	t.Setenv("BPFTRACE", "sh "+wrapper)
}

func TestScript(t *testing.T) {
	testenv.NeedsRoot(t)
	directory := t.TempDir()
	script := filepath.Join(directory, "script.bt")
	require.NoError(t, os.WriteFile(script, []byte(`usdt:*:demo:stack { printf("%d %d\n", $1, arg1); }`), 0o600))
	compiled, _ := demo(t)
	program := filepath.Join(directory, "demo-0a1b.so")
	require.NoError(t, os.Rename(compiled, program))
	traced, other := start(t, program), start(t, program)
	require.Equal(t, fmt.Sprintf("/proc/%d/root%s", traced.PID(), program), tracetest.ProbesFile(t, traced.PID(), "demo"))

	sees := func(t *testing.T, tr *tracetest.Tracer, want ...string) {
		t.Helper()
		other.Say("stack 1 2")
		other.Expect("done", timeout)
		traced.Say("stack 1 3")
		traced.Expect("done", timeout)
		require.ElementsMatch(t, want, tr.WaitLines(len(want), timeout))
		tr.Stop()
	}
	t.Run("script", func(t *testing.T) { sees(t, tracetest.Script(t, traced, script, "7"), "7 3") })
	for minor, want := range map[int][]string{17: {"8 3"}, 18: {"8 2", "8 3"}} {
		t.Run(fmt.Sprintf("kernel script, 0.%d", minor), func(t *testing.T) {
			sayVersion(t, minor)
			sees(t, tracetest.KernelScript(t, traced, "demo", script, "8"), want...)
		})
	}
}
