//go:build linux && (amd64 || arm64)

package main

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
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/tracetest"

	"github.com/stretchr/testify/require"
)

// numbers are events of six arguments, which are in registers on every
// architecture. As everywhere below, the first event serves to find out whether
// bpftrace has attached, and no two are equal.
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

// strlen is how much of a string bpftrace is told to read.
const strlen = 200

// texts are events of a string. What bpftrace makes of one that is too long
// depends on its version: it cuts a byte more or less, and may add dots.
var (
	texts = []string{"attached", "", "a", "grüße, 世界", strings.Repeat("x", strlen-2), strings.Repeat("y", 10_000)}
	cut   = regexp.MustCompile(`y{199}y?(\.\.)?>`)
)

// manyArgs are as many arguments as a probe can have, of either sign.
func manyArgs(event int) []any {
	args := make([]any, stapsdt.MaxArgs)
	for i := range args {
		args[i] = (1 - 2*(i%2)) * (1000*event + i)
	}
	return args
}

// runChild is the program that is traced. A line tells it a probe and which of
// the events to fire.
func runChild() {
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

// traced is the child.
type traced struct{ *tracetest.Process }

// idle is what it answers while nobody traces it.
const idle = "false false false <nil>"

// fire has it fire an event, and returns which of its probes are enabled then.
func (c traced) fire(probe string, event int) string {
	c.Say(fmt.Sprintf("%s %d", probe, event))
	return c.Expect("enabled ", patience)
}

// await repeats what is done until it is true.
func await(t *T, what string, tracer *tracetest.Process, done func() bool) {
	for deadline := time.Now().Add(starting); !done(); time.Sleep(200 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "%s: not within %v\n%s", what, starting, tracer.Dump())
	}
}

// bpftraceReads has the child fire the events of a probe under bpftrace, and
// compares the lines that begin with an equals sign.
func bpftraceReads(t *T, probe, action string, want []string) {
	self, err := os.Executable()
	require.NoError(t, err)
	c := traced{tracetest.Command(t, exec.Command(self, "-child"))}
	file := "*"
	if path := c.Expect("loaded ", patience); olderThan(t, 17) {
		file = path // 0.11 takes no pattern that matches several files
	}
	program := fmt.Sprintf("usdt:%s:guest:%s { %s }", file, probe, action)
	tracer := tracetest.Command(t, exec.Command("bpftrace", "-B", "line", "-p", strconv.Itoa(c.PID()), "-e", program))
	lines := func() []string {
		return slices.DeleteFunc(tracer.Lines(), func(s string) bool { return !strings.HasPrefix(s, "=") })
	}

	// 0.11 does not tell when it has attached, and a site is patched before the
	// BPF program is there.
	await(t, "the first line", tracer, func() bool {
		c.fire(probe, 0)
		return len(lines()) > 0
	})
	for event := 1; event < len(want); event++ {
		require.NotEqual(t, idle, c.fire(probe, event))
	}
	await(t, "the last line", tracer, func() bool { return len(slices.Compact(lines())) >= len(want) })
	printed := slices.Compact(lines())
	for i, s := range printed {
		printed[i] = cut.ReplaceAllString(s, strings.Repeat("y", strlen-1)+">")
	}
	require.Equal(t, want, printed)

	tracer.Signal(os.Kill)
	await(t, "the detachment", tracer, func() bool { return c.fire(probe, 0) == idle })
}

// bpftraceArguments: integers of every size.
func bpftraceArguments(t *T) {
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

// bpftraceString: strings, and what bpftrace cuts off them.
func bpftraceString(t *T) {
	require.NoError(t, os.Setenv("BPFTRACE_STRLEN", strconv.Itoa(strlen)))
	require.NoError(t, os.Setenv("BPFTRACE_MAX_STRLEN", strconv.Itoa(strlen))) // its name since 0.21
	var want []string
	for i, s := range texts {
		want = append(want, fmt.Sprintf("= <%s> %d", s[:min(len(s), strlen-1)], -i))
	}
	bpftraceReads(t, "text", `printf("= <%s> %d\n", str(arg0), arg1);`, want)
}

// bpftraceStack: arguments that no register has room for.
func bpftraceStack(t *T) {
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

// bpftraceVersion: it runs at all.
func bpftraceVersion(t *T) {
	major, minor := tracetest.BpftraceVersion(t)
	t.Notef("%d.%d", major, minor)
}

// olderThan reports whether bpftrace is older than 0.minor.
func olderThan(t *T, minor int) bool {
	v0, v1 := tracetest.BpftraceVersion(t)
	return v0 == 0 && v1 < minor
}
