//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// compiledExporter compiles the program in a directory as its comment says.
func compiledExporter(t *testing.T, dir string) (object string) {
	t.Helper()
	clang := testenv.NeedsTool(t, "clang", "clang")
	_, err := os.Stat("/usr/include/bpf/usdt.bpf.h")
	testenv.Needs(t, "/usr/include/bpf/usdt.bpf.h (package libbpf-dev)", err)
	arch, triple := "x86", "x86_64-linux-gnu"
	if runtime.GOARCH == "arm64" {
		arch, triple = "arm64", "aarch64-linux-gnu"
	}
	cmd := exec.Command(clang, "-O2", "-g", "-target", "bpf", "-D__TARGET_ARCH_"+arch, "-I/usr/include/"+triple, "-c", "stapsdt.bpf.c")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(dir, "stapsdt.bpf.o")
}

// TestScriptExporter: libbpf, by which ebpf_exporter attaches, counts what is fired, of the
// processes that are meant. ebpf_exporter itself is not here.
func TestScriptExporter(t *testing.T) {
	testenv.LongOnce(t, "it compiles three programs")
	testenv.NeedsRoot(t)
	gcc := testenv.NeedsTool(t, "gcc", "gcc")
	for _, where := range []string{"file", "memfd"} {
		p, other := goSubject(t, where), goSubject(t, where)
		dir := t.TempDir()
		require.Zero(t, runs(t, "script", "-p", pid(p), "subject:request__done", "subject:tick", "--for", "ebpf-exporter", "-o", dir).status)
		config, err := os.ReadFile(filepath.Join(dir, "stapsdt.yaml"))
		require.NoError(t, err)
		require.Regexp(t, `(?s)static_map:\n +0: "subject:request__done"\n +1: "subject:tick"\n$`, string(config))
		object := compiledExporter(t, dir)
		counter := filepath.Join(dir, "counter")
		out, err := exec.Command(gcc, "-O2", "-Wall", "-Wextra", "-Werror", "-o", counter, "testdata/counter.c", "-lbpf").CombinedOutput()
		require.NoError(t, err, "%s", out)

		c := tracetest.Command(t, exec.Command(counter, object))
		c.Expect("attached", patience)
		does(other, "fire 4")
		does(p, "fire 2")
		does(p, "storm 1 3")
		c.Hangup()
		require.NoError(t, c.Wait(patience))
		got := c.Lines()
		slices.Sort(got)
		require.Equal(t, []string{"0=2", "1=3", "attached"}, got)
	}
	r := runs(t, "script", "-a", "subject:*", "--for", "ebpf-exporter")
	require.Equal(t, 2, r.status)
	require.Contains(t, r.stderr, "-o DIR")
}
