//go:build linux && (amd64 || arm64)

package kernels

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// strlen is how many bytes of a string bpftrace is to read.
const strlen = 200

// cut is how bpftrace prints a string that is too long. Versions differ: they cut a byte more or less, and may add dots.
var cut = regexp.MustCompile(`y{199}y?(\.\.)?>`)

// guestProbes are what bpftrace reads: a probe of the guest's program, and its events. The first one is for finding out whether bpftrace has
// attached, and no two are equal.
var guestProbes = map[string]struct {
	types  []stapsdt.ArgType
	events [][]any
}{
	// In registers on every architecture.
	"number": {[]stapsdt.ArgType{stapsdt.Int8, stapsdt.Uint8, stapsdt.Int16, stapsdt.Uint32, stapsdt.Int64, stapsdt.Uint64}, [][]any{
		{int8(1), 2, int16(3), 4, 5, 6},
		{int8(-1), math.MaxUint8, int16(-1), math.MaxUint32, -1, uint64(math.MaxUint64)},
		{int8(math.MinInt8), 0x80, int16(math.MinInt16), 1 << 31, math.MinInt64, uint64(1 << 63)},
		{int8(math.MaxInt8), 0, int16(math.MaxInt16), 0, math.MaxInt64, 0},
	}},
	"text": {[]stapsdt.ArgType{stapsdt.String, stapsdt.Int32}, [][]any{
		{"attached", 0}, {"", -1}, {"a", -2}, {"grüße, 世界", -3}, {strings.Repeat("x", strlen-2), -4}, {strings.Repeat("y", 10_000), -5},
	}},
	"many": {slices.Repeat([]stapsdt.ArgType{stapsdt.Int64}, stapsdt.MaxArgs), [][]any{manyArgs(0), manyArgs(1), manyArgs(2)}},
}

// manyArgs returns as many arguments as a probe can have, of either sign.
func manyArgs(event int) []any {
	args := make([]any, stapsdt.MaxArgs)
	for i := range args {
		args[i] = (1 - 2*(i%2)) * (1000*event + i)
	}
	return args
}

// runSubject is the program that bpftrace traces. Each line of its input names a
// probe and the event to fire.
func runSubject([]string) {
	p := stapsdt.NewProvider("guest")
	for _, name := range slices.Sorted(maps.Keys(guestProbes)) {
		if _, err := p.AddProbe(name, guestProbes[name].types...); err != nil {
			panic(err)
		}
	}
	if err := p.Load(); err != nil {
		panic(err)
	}
	fmt.Println("loaded", p.Path())
	tracetest.EachLine(func(line string) {
		name, number, _ := strings.Cut(line, " ")
		event, _ := strconv.Atoi(number)
		probe := p.Probes()[slices.IndexFunc(p.Probes(), func(p *stapsdt.Probe) bool { return p.Name() == name })]
		if err := probe.Fire(guestProbes[name].events[event]...); err != nil {
			panic(err)
		}
		fmt.Println("enabled", probe.Enabled())
	})
}

// needBpftrace skips a test, or fails it, where bpftrace cannot run.
func needBpftrace(t *testing.T) {
	t.Helper()
	testenv.Long(t, "bpftrace starts slowly, in a guest most of all")
	tracetest.NeedUprobes(t)
	major, minor := tracetest.BpftraceVersion(t)
	t.Attr("bpftrace", fmt.Sprintf("%d.%d", major, minor))
}

// await calls done until it returns true.
func await(t *testing.T, what string, tracer *tracetest.Process, done func() bool) {
	for deadline := time.Now().Add(starting); !done(); time.Sleep(200 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "%s: not within %v\n%s", what, starting, tracer.Dump())
	}
}

// bpftraceReads has a subject fire the events of a probe under bpftrace, and
// compares the lines that begin with an equals sign.
func bpftraceReads(t *testing.T, probe, action string, show func(args []any) string) {
	s := tracetest.Child(t, "subject")
	file := "*"
	if path := s.Expect("loaded ", testenv.Patience); olderThan(t, 17) {
		file = path // 0.11 takes no pattern that matches several files
	}
	program := fmt.Sprintf("usdt:%s:guest:%s { %s }", file, probe, action)
	command := append(tracetest.BpftraceCommand(t), "-B", "line", "-p", strconv.Itoa(s.PID()), "-e", program)
	tracer := tracetest.Command(t, exec.Command(command[0], command[1:]...))
	fire := func(event int) bool { return enabled(s, fmt.Sprint(probe, " ", event)) }
	lines := func() []string {
		return slices.Compact(slices.DeleteFunc(tracer.Lines(), func(line string) bool { return !strings.HasPrefix(line, "=") }))
	}

	// 0.11 does not say when it has attached, and a site is patched before its BPF
	// program can run.
	await(t, "the first line", tracer, func() bool {
		fire(0)
		return len(lines()) > 0
	})
	var want []string
	for event, args := range guestProbes[probe].events {
		want = append(want, "= "+show(args))
		require.True(t, event == 0 || fire(event))
	}
	await(t, "the last line", tracer, func() bool { return len(lines()) >= len(want) })
	printed := lines()
	for i, line := range printed {
		printed[i] = cut.ReplaceAllString(line, strings.Repeat("y", strlen-1)+">")
	}
	require.Equal(t, want, printed)

	tracer.Signal(os.Kill)
	await(t, "the detachment", tracer, func() bool { return !fire(0) })
}

// plain shows arguments as numbers.
func plain(args []any) string { return strings.TrimSpace(fmt.Sprintln(args...)) }

// bpftrace reads integers of every size.
func TestBpftraceArguments(t *testing.T) {
	needBpftrace(t)
	bpftraceReads(t, "number", `printf("= %ld %lu %ld %lu %ld %lu\n", arg0, arg1, arg2, arg3, arg4, arg5);`, func(args []any) string {
		if olderThan(t, 17) { // 0.11 does not extend the sign of these two
			args = slices.Clone(args)
			args[0], args[2] = uint8(args[0].(int8)), uint16(args[2].(int16))
		}
		return plain(args)
	})
}

// bpftrace reads strings, and cuts those that are too long.
func TestBpftraceString(t *testing.T) {
	needBpftrace(t)
	t.Setenv("BPFTRACE_STRLEN", strconv.Itoa(strlen))
	t.Setenv("BPFTRACE_MAX_STRLEN", strconv.Itoa(strlen)) // its name since 0.21
	bpftraceReads(t, "text", `printf("= <%s> %d\n", str(arg0), arg1);`, func(args []any) string {
		text := args[0].(string)
		return fmt.Sprintf("<%s> %d", text[:min(len(text), strlen-1)], args[1])
	})
}

// bpftrace reads arguments on the stack.
func TestBpftraceStack(t *testing.T) {
	needBpftrace(t)
	if olderThan(t, 27) {
		t.Skipf("bpftrace 0.11 takes six arguments; 0.17 and 0.23 crash for twelve")
	}
	names := ""
	for i := range stapsdt.MaxArgs {
		names += fmt.Sprintf(", arg%d", i)
	}
	bpftraceReads(t, "many", fmt.Sprintf(`printf("=%s\n"%s);`, strings.Repeat(" %ld", stapsdt.MaxArgs), names), plain)
}

// olderThan reports whether bpftrace is older than 0.minor.
func olderThan(t *testing.T, minor int) bool {
	v0, v1 := tracetest.BpftraceVersion(t)
	return v0 == 0 && v1 < minor
}
