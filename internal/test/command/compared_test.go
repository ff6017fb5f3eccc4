//go:build linux && (amd64 || arm64)

package command_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// requireRefused runs a program that bpftrace refuses, and returns what bpftrace says.
func requireRefused(t *testing.T, before []string, args ...string) string {
	t.Helper()
	words := slices.Concat(before, tracetest.BpftraceCommand(t), args)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = t.TempDir()
	r := runToEnd(t, cmd)
	require.NotZero(t, r.status)
	return r.stdout + r.stderr
}

// TestCompared: what docs/compared.md says that bpftrace does not do.
func TestCompared(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Long(t, "it starts many tracers")
	setpriv := testenv.NeedsTool(t, "setpriv", "util-linux")
	p := startGoSubject(t)
	c, path := startCSubject(t)
	t.Run("arguments by name", func(t *testing.T) {
		says := requireRefused(t, nil, "-p", pid(p), "-e", "usdt:*:subject:request__done { print(args->path); }")
		require.Contains(t, says, "The args builtin can only be used with")
	})
	t.Run("every process", func(t *testing.T) {
		requireRefused(t, nil, "-e", "usdt:*:subject:request__done { exit(); }")
		tr := startTrace(t, p, "trace", "-o", "json", "-a", "subject:request__done")
		tell(p, "fire 1")
		require.Len(t, of(p, tr.stop()), 1)
	})
	t.Run("capabilities", func(t *testing.T) {
		const set = "-all,+bpf,+perfmon"
		user := []string{setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=" + set, "--ambient-caps=" + set, "--bounding-set=" + set, "--"}
		require.Contains(t, requireRefused(t, user, "-e", "BEGIN { exit(); }"), "only supports running as the root user") // TestRights has the command
	})
	t.Run("symbols", func(t *testing.T) {
		const value = "9223372036854775808"
		tr := startTrace(t, c, "trace", path+":csubject:work", "--show", "arg3", "-n", "1")
		tell(c, "fire 1")
		require.NoError(t, tr.Wait(testenv.Patience))
		require.Contains(t, strings.Join(tr.Lines(), "\n"), "arg3="+value)
		b := tracetest.Bpftrace(t, "usdt:"+path+`:csubject:work { printf("value %lu\n", arg3); }`)
		tell(c, "fire 1")
		require.NotContains(t, b.WaitLines(1, testenv.Patience), "value "+value)
	})
	t.Run("children", func(t *testing.T) {
		b := tracetest.Bpftrace(t, "usdt:"+path+`:csubject:other { printf("%d\n", pid); }`, "-p", pid(c))
		c.Say("fork 1")
		c.Expect("ok", testenv.Patience)
		tell(c, "fire 1")
		require.Equal(t, []string{pid(c)}, b.WaitLines(1, testenv.Patience)) // TestTraceForks has the command
	})
	t.Run("libraries", func(t *testing.T) {
		found, err := exec.LookPath("bpftrace")
		require.NoError(t, err)
		real, err := filepath.EvalSymlinks(found)
		require.NoError(t, err)
		out, err := exec.Command("ldd", real).CombinedOutput()
		require.NoError(t, err)
		require.Contains(t, string(out), "libLLVM")
		out, _ = exec.Command("ldd", stapsdt(t)).CombinedOutput()
		require.Contains(t, string(out), "not a dynamic executable")
	})
}
