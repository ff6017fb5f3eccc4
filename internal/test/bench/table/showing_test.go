//go:build linux

package table

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// showingPart is what the line of an event takes.
var showingPart = commandPart{
	rows: []commandRow{
		{"the line of an event by the socket: `trace`", "command trace", nanoseconds, true},
		{"the line of an event by the socket: `trace -o json`", "command tracejson", nanoseconds, true},
		{"the line of an event by the kernel: `trace`", "command kerneltrace", nanoseconds, true},
		{"the line of an event by the kernel: `trace -o json`", "command kerneltracejson", nanoseconds, true},
		{"the line of an event by the kernel: bpftrace's `printf`", "command bpftraceprintf", nanoseconds, true},
	},
	start: startShowing,
}

func startShowing(t testing.TB, r results) func() {
	return func() {
		for key, format := range map[string]string{"trace": "text", "tracejson": "json"} {
			r["command "+key] = append(r["command "+key], shownLive(t, format))
		}
		for key, start := range kernelShowers {
			r["command "+key] = append(r["command "+key], shownByKernel(t, start))
		}
	}
}

// lineCount counts the lines that are written to it.
type lineCount int

func (n *lineCount) Write(b []byte) (int, error) {
	*n += lineCount(bytes.Count(b, []byte("\n")))
	return len(b), nil
}

var lostEvents = regexp.MustCompile(`(\d+) events were lost`)

// shownLive returns the processor time of a trace for each event that it shows of a program that fires at a steady rate, in
// nanoseconds. It must have shown or lost each.
func shownLive(t testing.TB, format string) float64 {
	const fires = 2_000_000
	var lines lineCount
	var warnings bytes.Buffer
	used := watchedLive(t, fmt.Sprint("fire 1 1000 ", fires), &lines, &warnings, "trace", "live:two", "-o", format)
	lost := 0
	for _, m := range lostEvents.FindAllSubmatch(warnings.Bytes(), -1) {
		n, err := strconv.Atoi(string(m[1]))
		require.NoError(t, err)
		lost += n
	}
	shown := int(lines)
	if format == "text" || lost > 0 { // without the titles, or the object of the lost events
		shown--
	}
	require.Equal(t, fires, shown+lost, "%s", &warnings)
	return used / float64(shown)
}

// shower is a tracer that is attached, and prints a line for each event.
type shower struct {
	*tracetest.Process
	stop func()
}

// kernelShowers start tracers that show the events of a process by the kernel.
var kernelShowers = map[string]func(t testing.TB, pid string) shower{
	"kerneltrace":     func(t testing.TB, pid string) shower { return traceByKernel(t, pid, "text") },
	"kerneltracejson": func(t testing.TB, pid string) shower { return traceByKernel(t, pid, "json") },
	"bpftraceprintf": func(t testing.TB, pid string) shower {
		t.Setenv("BPFTRACE_PERF_RB_PAGES", "4096") // by default it loses a fourth of the events on two processors
		tracer := tracetest.Bpftrace(t, `usdt:*:live:two { printf("%llu %d %s live:two id=%ld status=%d\n", nsecs, tid, comm, arg0, arg1) }`, "-p", pid)
		return shower{tracer.Process, func() { tracer.Stop() }}
	},
}

func traceByKernel(t testing.TB, pid, format string) shower {
	p := tracetest.Command(t, stapsdtCommand("trace", "-v", "--via", "kernel", "-o", format, "-p", pid, "live:two"))
	p.WaitSaid(regexp.MustCompile("Ctrl-C ends"), testenv.Patience)
	return shower{p, func() {
		p.Signal(os.Interrupt)
		require.NoError(t, p.Wait(testenv.Patience))
	}}
}

// shownByKernel returns the processor time of a tracer for each event that it shows of a program that fires 100,000 events a
// second, in nanoseconds. It must show nearly all of them.
func shownByKernel(t testing.TB, start func(t testing.TB, pid string) shower) float64 {
	const fires = 200_000
	p := startPace(t)
	tracer := start(t, strconv.Itoa(p.PID()))
	before := processTime(t, tracer.PID())
	p.Say(fmt.Sprint("fire 1 100 ", fires))
	p.Expect("fired ", testenv.Patience)
	time.Sleep(time.Second / 2) // until the last lines are printed
	used := processTime(t, tracer.PID()) - before
	tracer.stop()
	shown := len(tracer.Lines())
	require.Greater(t, shown, fires*9/10)
	p.Hangup()
	require.NoError(t, p.Wait(testenv.Patience))
	return float64(used.Nanoseconds()) / float64(shown)
}
