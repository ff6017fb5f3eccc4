//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/postgres"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestPostgreSQL: the processes that a server forks, queries and transactions with their
// values, and semaphores.
func TestPostgreSQL(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Long(t, "it sets up a database server")
	s := postgres.Start(t)
	s.Query(t, "create table items (id int, name text)")
	tr := startTrace(t, s.Process, "trace", "-o", "json", "-p", pid(s.Process), "postgresql:query__start", "postgresql:query__done",
		"--show", "str(arg0)", "-w", `strings.HasPrefix(str(arg0), "insert") || strings.Contains(str(arg0), "from items")`)
	queries := []string{"insert into items values (1, 'one')", "select 1", "select * from items where id = 1", "insert into items values (2, 'two')"}
	s.Query(t, queries...)
	var want, got []string
	for _, q := range slices.Concat(queries[:1], queries[2:]) {
		want = append(want, "query__start "+q, "query__done "+q)
	}
	backend := 0
	for _, e := range tr.stop() {
		got = append(got, fmt.Sprint(e.Probe, " ", e.Args["str(arg0)"]))
		backend = e.PID
	}
	require.Equal(t, want, got)
	require.NotEqual(t, s.PID(), backend, "a process that it has forked")

	tr = startTrace(t, s.Process, "count", "-o", "json", "-p", pid(s.Process), "postgresql:transaction__*")
	s.Query(t, "begin; insert into items values (3, 'three'); rollback", "select count(*) from items", "begin; select 1; commit")
	counts := map[string]int{}
	for _, r := range tr.stopCounting() {
		counts[r.Probe] = r.Count
	}
	// The autovacuum launcher may have transactions of its own.
	require.Equal(t, 1, counts["transaction__abort"])
	require.GreaterOrEqual(t, counts["transaction__commit"], 2)
	require.Equal(t, counts["transaction__start"], counts["transaction__abort"]+counts["transaction__commit"])
	require.NotContains(t, runCommand(t, "list", "-p", pid(s.Process)).stdout, "traced now")
}

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
		found := tracetest.Must(exec.LookPath("bpftrace"))(t)
		real := tracetest.Must(filepath.EvalSymlinks(found))(t)
		out := tracetest.Must(exec.Command("ldd", real).CombinedOutput())(t)
		require.Contains(t, string(out), "libLLVM")
		out, _ = exec.Command("ldd", stapsdt(t)).CombinedOutput()
		require.Contains(t, string(out), "not a dynamic executable")
	})
}
