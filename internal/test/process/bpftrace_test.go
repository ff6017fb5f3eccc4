//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestStackNamesTheCaller: the tracer's stack goes through the probe to the
// function that fired, by name. (A test binary has no symbols: hello has.)
func TestStackNamesTheCaller(t *testing.T) {
	testenv.NeedsRoot(t)
	hello := startHello(t)
	tracer := tracetest.Bpftrace(t, `usdt:*:hello:greeting { printf("%s\n", ustack); exit(); }`, "-p", strconv.Itoa(hello.PID()))
	frames := tracer.WaitLines(3, testenv.Patience)
	stack := strings.Join(frames, "\n")
	at := -1
	for _, frame := range []string{"greeting+0", "main.main+", "runtime.main+"} {
		i := strings.Index(stack, frame)
		require.Greater(t, i, at, "%s in\n%s", frame, stack)
		at = i
	}
	tracer.Stop()
}

// TestTranslator: a bpftrace script reads the fields of a struct that an argument points
// to, and declares no struct.
func TestTranslator(t *testing.T) {
	testenv.NeedsRoot(t)
	path := strings.TrimPrefix(startExample(t, "translator", "the probes are in").Lines()[0], "the probes are in ")
	tracer := tracetest.Bpftrace(t, `uprobe:`+path+`:request__done { $r = args->info;
		printf("%r %r %d %u ms\n", buf($r->Method.str, $r->Method.len), buf($r->Path.str, $r->Path.len),
			$r->Status, (uint64)$r->Elapsed / 1000000); }`)
	for _, line := range tracer.WaitLines(4, testenv.Patience) {
		var item, status, ms int
		_, err := fmt.Sscanf(line, "GET /item/%d %d %d ms", &item, &status, &ms)
		require.NoError(t, err, line)
		require.Equal(t, 200+item%2*204, status)
		require.GreaterOrEqual(t, ms, 100)
	}
	tracer.Stop()
}

func startHello(t *testing.T) *tracetest.Process {
	t.Helper()
	return startExample(t, "hello", "bpftrace -p")
}

// startExample builds an example as this test was built, and starts it. It is
// ready when it says so.
func startExample(t *testing.T, name, ready string) *tracetest.Process {
	t.Helper()
	program := t.TempDir() + "/" + name
	out, err := exec.Command("go", "build", "-o", program, "../../../examples/"+name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir()+"/images")
	p := tracetest.Command(t, cmd)
	p.WaitLine(ready, testenv.Patience)
	return p
}

// TestListings: the other tools that list a process's probes.
func TestListings(t *testing.T) {
	testenv.NeedsRoot(t)
	p := newProvider(t, "listed")
	stapsdt.NewProbe2[uint8, string](p, "first")
	stapsdt.NewProbe0(p, "second")
	load(t, p)
	path, pid := p.Path(), strconv.Itoa(os.Getpid())
	for _, list := range [][]string{
		{"bpftrace", "-p", pid, "-l", "usdt:*"},
		{"tplist-bpfcc", "-p", pid},
		{"readelf", "-n", path},
		{"eu-readelf", "-n", path},
	} {
		out := run(t, list[0], list[1:]...)
		require.Regexp(t, `listed[\s\S]*first`, out)
		require.Regexp(t, `listed[\s\S]*second`, out)
		require.NotContains(t, out, "arning")
	}
	t.Setenv("HOME", t.TempDir()) // perf's cache
	run(t, "perf", "buildid-cache", "--add", path)
	require.Regexp(t, `sdt_listed:first[\s\S]*sdt_listed:second`, run(t, "perf", "list", "sdt"))
}

// run runs a tool that must be there and succeed, and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	packages := map[string]string{"tplist-bpfcc": "bpfcc-tools", "readelf": "binutils", "perf": "linux-perf"}
	pkg := packages[name]
	if pkg == "" {
		pkg = name
	}
	if strings.HasPrefix(name, "eu-") {
		pkg = "elfutils"
	}
	path := testenv.NeedsTool(t, name, pkg)
	p := tracetest.Command(t, exec.Command(path, args...))
	err := p.Wait(testenv.Patience)
	require.NoError(t, err, p.Dump())
	return strings.Join(p.Lines(), "\n")
}
