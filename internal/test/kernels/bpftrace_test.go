//go:build linux && (amd64 || arm64)

package kernels

import (
	"errors"
	"fmt"
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

// numbers are events with six arguments, which are in registers on every
// architecture. The first event of each list in this file is for finding out whether
// bpftrace has attached, and no two events are equal.
var numbers = []struct {
	i8  int8
	u8  uint8
	i16 int16
	u32 uint32
	i64 int64
	u64 uint64
}{
	{1, 2, 3, 4, 5, 6},
	{-1, math.MaxUint8, -1, math.MaxUint32, -1, math.MaxUint64},
	{math.MinInt8, 0x80, math.MinInt16, 1 << 31, math.MinInt64, 1 << 63},
	{math.MaxInt8, 0, math.MaxInt16, 0, math.MaxInt64, 0},
}

// strlen is how many bytes of a string bpftrace is to read.
const strlen = 200

// texts are events with a string. Versions of bpftrace differ in how they print one
// that is too long: they cut a byte more or less, and may add dots.
var (
	texts = []string{"attached", "", "a", "grüße, 世界", strings.Repeat("x", strlen-2), strings.Repeat("y", 10_000)}
	cut   = regexp.MustCompile(`y{199}y?(\.\.)?>`)
)

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
	number := stapsdt.NewProbe6[int8, uint8, int16, uint32, int64, uint64](p, "number")
	text := stapsdt.NewProbe2[string, int32](p, "text")
	many, err := p.AddProbe("many", slices.Repeat([]stapsdt.ArgType{stapsdt.Int64}, stapsdt.MaxArgs)...)
	if err = errors.Join(err, p.Load()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("loaded", p.Path())
	tracetest.EachLine(func(line string) {
		name, rest, _ := strings.Cut(line, " ")
		event, err := strconv.Atoi(rest)
		switch name {
		case "number":
			n := numbers[event]
			number.Fire(n.i8, n.u8, n.i16, n.u32, n.i64, n.u64)
		case "text":
			text.Fire(texts[event], int32(-event))
		case "many":
			err = errors.Join(err, many.Fire(manyArgs(event)...))
		}
		fmt.Println("enabled", number.Enabled(), text.Enabled(), many.Enabled(), err)
	})
}

// subject is a process that runs runSubject.
type subject struct{ *tracetest.Process }

// idle is its answer while no tracer is attached.
const idle = "false false false <nil>"

// fire has it fire an event, and returns which of its probes are enabled then.
func (s subject) fire(probe string, event int) string {
	s.Say(fmt.Sprintf("%s %d", probe, event))
	return s.Expect("enabled ", testenv.Patience)
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
func bpftraceReads(t *testing.T, probe, action string, want []string) {
	s := subject{tracetest.Child(t, "subject")}
	file := "*"
	if path := s.Expect("loaded ", testenv.Patience); olderThan(t, 17) {
		file = path // 0.11 takes no pattern that matches several files
	}
	program := fmt.Sprintf("usdt:%s:guest:%s { %s }", file, probe, action)
	command := append(tracetest.BpftraceCommand(t), "-B", "line", "-p", strconv.Itoa(s.PID()), "-e", program)
	tracer := tracetest.Command(t, exec.Command(command[0], command[1:]...))
	lines := func() []string {
		return slices.DeleteFunc(tracer.Lines(), func(line string) bool { return !strings.HasPrefix(line, "=") })
	}

	// 0.11 does not say when it has attached, and a site is patched before its BPF
	// program can run.
	await(t, "the first line", tracer, func() bool {
		s.fire(probe, 0)
		return len(lines()) > 0
	})
	for event := 1; event < len(want); event++ {
		require.NotEqual(t, idle, s.fire(probe, event))
	}
	await(t, "the last line", tracer, func() bool { return len(slices.Compact(lines())) >= len(want) })
	printed := slices.Compact(lines())
	for i, line := range printed {
		printed[i] = cut.ReplaceAllString(line, strings.Repeat("y", strlen-1)+">")
	}
	require.Equal(t, want, printed)

	tracer.Signal(os.Kill)
	await(t, "the detachment", tracer, func() bool { return s.fire(probe, 0) == idle })
}

// bpftrace reads integers of every size.
func TestBpftraceArguments(t *testing.T) {
	needBpftrace(t)
	var want []string
	for _, n := range numbers {
		line := fmt.Sprint("= ", n.i8, n.u8, n.i16, n.u32, n.i64, n.u64)
		if olderThan(t, 17) { // 0.11 does not extend the sign of these two
			line = fmt.Sprint("= ", uint8(n.i8), n.u8, uint16(n.i16), n.u32, n.i64, n.u64)
		}
		want = append(want, line)
	}
	bpftraceReads(t, "number", `printf("= %ld %lu %ld %lu %ld %lu\n", arg0, arg1, arg2, arg3, arg4, arg5);`, want)
}

// bpftrace reads strings, and cuts those that are too long.
func TestBpftraceString(t *testing.T) {
	needBpftrace(t)
	t.Setenv("BPFTRACE_STRLEN", strconv.Itoa(strlen))
	t.Setenv("BPFTRACE_MAX_STRLEN", strconv.Itoa(strlen)) // its name since 0.21
	var want []string
	for i, s := range texts {
		want = append(want, fmt.Sprintf("= <%s> %d", s[:min(len(s), strlen-1)], -i))
	}
	bpftraceReads(t, "text", `printf("= <%s> %d\n", str(arg0), arg1);`, want)
}

// bpftrace reads arguments on the stack.
func TestBpftraceStack(t *testing.T) {
	needBpftrace(t)
	if olderThan(t, 27) {
		t.Skipf("bpftrace 0.11 takes six arguments; 0.17 and 0.23 crash for twelve")
	}
	var format, names strings.Builder
	for i := range stapsdt.MaxArgs {
		format.WriteString(" %ld")
		fmt.Fprintf(&names, ", arg%d", i)
	}
	var want []string
	for event := range 3 {
		want = append(want, "= "+strings.TrimSpace(fmt.Sprintln(manyArgs(event)...)))
	}
	bpftraceReads(t, "many", fmt.Sprintf(`printf("=%s\n"%s);`, format.String(), names.String()), want)
}

// olderThan reports whether bpftrace is older than 0.minor.
func olderThan(t *testing.T, minor int) bool {
	v0, v1 := tracetest.BpftraceVersion(t)
	return v0 == 0 && v1 < minor
}
