//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/test/values"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestBpftraceReadsEveryType has bpftrace print six arguments of each type, its
// extremes among them.
func TestBpftraceReadsEveryType(t *testing.T) {
	c := startChild(t)
	var program strings.Builder
	for typ := range values.Extremes {
		c.do(order{Op: "add", Provider: "types", Probe: typ.String(), Types: slices.Repeat([]stapsdt.ArgType{typ}, 6)})
		verb := "%lu"
		if typ.Signed() {
			verb = "%ld"
		}
		fmt.Fprintf(&program, "usdt:*:types:%v { printf(\"%v%s\\n\", arg0, arg1, arg2, arg3, arg4, arg5); } ",
			typ, typ, strings.Repeat(" "+verb, 6))
	}
	c.do(order{Op: "load", Provider: "types"})
	tracer := tracetest.Bpftrace(t, program.String(), "-p", c.pid())
	var want []string
	for typ, list := range values.Extremes {
		for shift := range list {
			args := make([]any, 6)
			line := typ.String()
			for i := range args {
				args[i] = list[(i+shift)%len(list)]
				line += fmt.Sprint(" ", args[i])
			}
			want = append(want, line)
			c.do(order{Op: "fire", Provider: "types", Probe: typ.String(), Args: ints(typ, args...)})
		}
	}
	got := tracer.WaitLines(len(want), testenv.Patience)
	require.ElementsMatch(t, want, got)
	tracer.Stop()
}

// TestBpftraceReadsStrings reads a string's beginning and its end, as the tracer
// shows no more than 64 bytes at once.
func TestBpftraceReadsStrings(t *testing.T) {
	c := startChild(t)
	c.do(order{Op: "add", Provider: "my-app.v2", Probe: "sub-entry", Types: []stapsdt.ArgType{stapsdt.String, stapsdt.Uint32}})
	c.do(order{Op: "load", Provider: "my-app.v2"})
	tracer := tracetest.Bpftrace(t, `usdt:*:my-app.v2:sub-entry { printf("<%s|%s|%s>\n", str(arg0), str(arg0 + 4086), str(arg0 + arg1)); }`, "-p", c.pid())
	long := strings.Repeat("0123456789", 1000)
	var want []string
	for _, s := range []string{"", "a", "nul\x00inside", "grüße, 世界", long[:4095], long} {
		first, _, _ := strings.Cut(s[:min(len(s), 63)], "\x00")
		end := min(len(s), stapsdt.MaxString-1)
		tail, last := "", ""
		if len(s) > 4086 {
			tail = s[4086:end]
		}
		if end > 3 {
			_, last, _ = strings.Cut(s[end-3:end], "\x00")
			if last == "" {
				last = s[end-3 : end]
			}
		}
		skip := max(end-3, 0)
		if end <= 3 {
			last = s
		}
		if len(s) <= 4086 {
			// What follows a short string is what an earlier one left.
			tail = "*"
		}
		want = append(want, fmt.Sprintf("<%s|%s|%s>", first, tail, last))
		c.do(order{Op: "fire", Provider: "my-app.v2", Probe: "sub-entry",
			Args: []arg{{Type: stapsdt.String, Text: []byte(s)}, {Type: stapsdt.Uint32, Word: uint64(skip)}}})
	}
	got := tracer.WaitLines(len(want), testenv.Patience)
	require.Len(t, got, len(want))
	for i := range want {
		head, rest, _ := strings.Cut(got[i], "|")
		tail, last, _ := strings.Cut(rest, "|")
		w := strings.Split(want[i], "|")
		require.Equal(t, w[0], head)
		require.Equal(t, w[2], last)
		if w[1] != "*" {
			require.Equal(t, w[1], tail)
		}
	}
	tracer.Stop()
}

// TestBpftraceTwoProviders traces two providers of one process, one in a file and
// one in memory, and both sites of a name, and counts them all.
func TestBpftraceTwoProviders(t *testing.T) {
	testenv.NeedsRoot(t)
	c := startChild(t)
	c.do(order{Op: "add", Provider: "one", Probe: "event", Types: []stapsdt.ArgType{stapsdt.Int32}})
	c.do(order{Op: "add", Provider: "one", Probe: "event", Types: []stapsdt.ArgType{stapsdt.Int32}})
	major, minor := tracetest.BpftraceVersion(t)
	memfd := major == 0 && minor < 25 // later ones find no memfd by the process
	c.do(order{Op: "add", Provider: "two", Memfd: memfd, Probe: "event", Types: []stapsdt.ArgType{stapsdt.Int32}})
	c.do(order{Op: "load", Provider: "one"})
	c.do(order{Op: "load", Provider: "two"})
	tracer := tracetest.Bpftrace(t, `usdt:*:one:event { @one[arg0] = count(); } usdt:*:two:event { @two = count(); }`, "-p", c.pid())
	c.do(order{Op: "repeat", Provider: "one", Probe: "event", Point: 0, Times: 100, Args: ints(stapsdt.Int32, int32(1))})
	c.do(order{Op: "repeat", Provider: "one", Probe: "event", Point: 1, Times: 10, Args: ints(stapsdt.Int32, int32(2))})
	c.do(order{Op: "repeat", Provider: "two", Probe: "event", Times: 1000, Args: ints(stapsdt.Int32, int32(3))})
	require.ElementsMatch(t, []string{"@one[1]: 100", "@one[2]: 10", "@two: 1000"}, strings.Split(tracer.Stop(), "\n"))
}

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
	c := startChild(t)
	c.do(order{Op: "add", Provider: "listed", Probe: "first", Types: []stapsdt.ArgType{stapsdt.Uint8, stapsdt.String}})
	c.do(order{Op: "add", Provider: "listed", Probe: "second"})
	path := c.do(order{Op: "load", Provider: "listed"})
	for _, list := range [][]string{
		{"bpftrace", "-p", c.pid(), "-l", "usdt:*"},
		{"tplist-bpfcc", "-p", c.pid()},
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
	err := p.Wait(time.Minute)
	require.NoError(t, err, p.Dump())
	return strings.Join(p.Lines(), "\n")
}
