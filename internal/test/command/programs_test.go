//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestJava: a library that the program loads after it has started, and the names of threads.
func TestJava(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Long(t, "it runs a Java VM")
	found, _ := filepath.Glob("/usr/lib/jvm/java-*-openjdk-*/lib/server/libjvm.so")
	if len(found) == 0 {
		testenv.Needs(t, "a Java VM with probes (package default-jdk-headless)", os.ErrNotExist)
	}
	jvm := found[0]
	home := strings.TrimSuffix(jvm, "/lib/server/libjvm.so")
	source := filepath.Join(t.TempDir(), "Threads.java")
	require.NoError(t, os.WriteFile(source, []byte(`public class Threads {
	public static void main(String[] args) throws Exception {
		for (int i = 0; i < 3; i++) {
			Thread t = new Thread(() -> {}, "worker-" + i);
			t.start();
			t.join();
		}
		System.gc();
	}
}
`), 0o600))
	cmd := exec.Command(stapsdt(t), "trace", "-o", "json", jvm+":hotspot:thread__start", "-d", "8s", "--show", "str(arg0),arg1",
		"-w", `strings.HasPrefix(str(arg0), "worker-")`)
	tr := &tracer{tracetest.Command(t, cmd), t}
	gc := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "count", "-o", "json", jvm+":hotspot:gc__*")), t}
	require.Eventually(t, func() bool {
		return strings.Contains(linksOf(t, tr), "uprobe") && strings.Contains(linksOf(t, gc), "uprobe")
	}, testenv.Patience, 5*time.Millisecond)
	java := exec.Command(home+"/bin/java", source)
	out, err := java.CombinedOutput()
	if err != nil && strings.Contains(string(out), "compiler") {
		testenv.Needs(t, "javac (package default-jdk-headless)", err)
	}
	require.NoError(t, err, "%s", out)
	events := tr.stop()
	require.Equal(t, []any{"worker-0", "worker-1", "worker-2"}, args(events, "str(arg0)"))
	require.Equal(t, []any{8., 8., 8.}, args(events, "arg1"))
	require.Equal(t, java.Process.Pid, events[0].PID)
	rows := gc.stopCounting()
	require.Len(t, rows, 2)
	require.Positive(t, rows[0].Count)
	require.Equal(t, rows[0].Count, rows[1].Count, "each that began has ended")
}
