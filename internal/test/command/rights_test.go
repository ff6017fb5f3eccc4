//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestRights: without a capability that a way of tracing needs, the command fails and names it.
func TestRights(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	setpriv := testenv.NeedsTool(t, "setpriv", "util-linux")
	p, path := startCSubject(t)
	makeReadable(t, path)
	with := func(set string, user bool, args ...string) result {
		t.Helper()
		if user { // with capabilities, if any, that are not root's
			return runToEnd(t, asUser(t, set, stapsdt(t), args...))
		}
		return runToEnd(t, exec.Command(setpriv, append([]string{"--bounding-set=" + set, "--", stapsdt(t)}, args...)...))
	}
	file := []string{"trace", "-d", "10ms", path + ":csubject:other"}
	process := []string{"trace", "-d", "10ms", "-p", pid(p), "csubject:other"}
	const only = "only the kernel can do this (a FILE in a SPEC), but "
	const suffix = "; to need none, start the program with STAPSDT_SOCKET=1, which probeenv.Load and the C library obey, and watch it as its own user: see stapsdt help rights\n"
	for _, c := range []struct {
		set    string
		user   bool
		args   []string
		refuse string
	}{
		// The file of root's program can be read, and all that is missing is named at once.
		{"-all", false, file, only + "loading BPF programs needs CAP_BPF and CAP_PERFMON"},
		{"-all,+bpf", false, file, only + "loading BPF programs needs CAP_PERFMON"},
		{"-all,+perfmon", false, file, only + "loading BPF programs needs CAP_BPF"},
		{"-all,+bpf,+perfmon", false, file, ""},
		{"-all,+sys_admin", false, file, ""},
		{"-all,+bpf,+perfmon", false, process, ""}, // it is root's own process
		// Another user's process.
		{"-all", true, []string{"list", "-p", pid(p)}, "reading the memory map of process " + pid(p) + " needs CAP_SYS_PTRACE"},
		{"-all,+sys_ptrace", true, []string{"list", "-p", pid(p)}, ""},
		// (From Linux 6.14, CAP_PERFMON is enough to read a memory map.)
		{"-all,+bpf,+perfmon,+sys_ptrace", true, process, ""},
	} {
		r := with(c.set, c.user, c.args...)
		if c.refuse == "" {
			require.Zero(t, r.status, c)
			continue
		}
		require.Equal(t, 4, r.status, c)
		want := "stapsdt: " + c.refuse + suffix
		if strings.HasPrefix(c.refuse, only) {
			want = "stapsdt: " + c.refuse + "\n"
		}
		require.Equal(t, want, r.stderr, c)
	}
	// The file of another user's process that was deleted is only in its memory.
	require.NoError(t, os.Remove(path))
	set := "-all,+bpf,+perfmon,+sys_ptrace"
	for _, missing := range []string{"CAP_CHECKPOINT_RESTORE and CAP_DAC_READ_SEARCH", "CAP_DAC_READ_SEARCH"} {
		r := with(set, true, process...)
		require.Equal(t, 4, r.status)
		require.Equal(t, "stapsdt: opening "+path+" of process "+pid(p)+" needs "+missing+suffix, r.stderr)
		set += ",+checkpoint_restore"
	}
	require.Zero(t, with("-all,+bpf,+perfmon,+sys_ptrace,+checkpoint_restore,+dac_read_search", true, process...).status)
}

// TestNoProbeBeforeRights: a user who may look at a process but not trace it is told first that
// a name is wrong.
func TestNoProbeBeforeRights(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	p := startIn(t, userDirectory(t), asUser(t, "-all", tracetest.Build(t, "subject")))
	for probes, want := range map[string]string{
		"count subject:tick":                    "loading BPF programs needs CAP_BPF and CAP_PERFMON",
		"count subject:wrong":                   "no such probe: no file of the process has subject:wrong",
		"latency subject:wrong":                 "no such probe: no file of the process has subject:wrong__start or subject:wrong__end",
		"latency subject:tick s:x --key=thread": "no such probe: no file of the process has s:x",
		"trace subject:tick subject:wrong":      "loading BPF programs needs CAP_BPF and CAP_PERFMON",
	} {
		r := runToEnd(t, asUser(t, "-all", stapsdt(t), append(strings.Fields(probes), "-p", pid(p))...))
		require.True(t, strings.HasPrefix(r.stderr, "stapsdt: "+want), "%s: %s", probes, r.stderr)
	}
}

// asUser returns a command that runs as the ordinary user with a set of capabilities, and runs a copy of the program that this user can reach.
func asUser(t testing.TB, set, program string, args ...string) *exec.Cmd {
	t.Helper()
	setpriv := testenv.NeedsTool(t, "setpriv", "util-linux")
	words := []string{fmt.Sprint("--reuid=", user), fmt.Sprint("--regid=", user), "--clear-groups", "--no-new-privs", "--bounding-set=" + set, "--inh-caps=" + set, "--ambient-caps=" + set, "--", readableCopy(t, program)}
	return exec.Command(setpriv, append(words, args...)...)
}

// readableCopy copies a program to where every user can run it.
func readableCopy(t testing.TB, program string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), filepath.Base(program))
	overwrite(t, program, path)
	makeReadable(t, path)
	return path
}

// makeReadable lets every user reach a file in a directory of a test.
func makeReadable(t testing.TB, path string) {
	temp := filepath.Clean(os.TempDir())
	for ; path != temp && path != "/"; path = filepath.Dir(path) {
		require.NoError(t, os.Chmod(path, 0o755))
	}
}
