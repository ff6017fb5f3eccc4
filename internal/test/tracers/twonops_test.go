//go:build linux

package tracers

import (
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// twoNops is the title of the column.
const twoNops = "C, `usdt.h`"

// rounds is how many values the probe has: 0 to 4, again and again.
const rounds = 5

// pairRow is a tracer of the site with two nops. words is its command, which prints lines of "event" and a value, and ends.
type pairRow struct {
	tool, way string
	version   func() string
	words     func(path, pid string) []string
}

func pairRows(h host) []pairRow {
	program := func(path string) string {
		return `usdt:` + path + `:twonops:fired { printf("event %d\n", arg0); @n++; if (@n > 20) { exit(); } }`
	}
	object := built("usdt.bpf.o")
	if h.newest {
		object = built("usdt.bpf.newest.o")
	}
	bpftrace, libbpf := h.versionOf("bpftrace", "--version"), h.versionOf(built("usdt"), "--version")
	return []pairRow{
		{"bpftrace", "`-p PID`", bpftrace, func(_, pid string) []string { return []string{"bpftrace", "-p", pid, "-e", program("*")} }},
		{"bpftrace", "a path, without `-p`", bpftrace, func(path, _ string) []string { return []string{"bpftrace", "-e", program(path)} }},
		{"libbpf", "`SEC(\"usdt\")`, a process", libbpf, func(path, pid string) []string {
			return []string{built("usdt"), object, pid, path, "twonops", "fired", "d"}
		}},
	}
}

// TestTwoNops: each tracer sees every event of the program, wherever it attaches.
func TestTwoNops(t *testing.T) {
	if *programs == "" {
		t.Skip("scripts/lib/tracers.sh runs the tracers")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is of amd64")
	}
	for _, h := range []host{{}, {newest: true}} {
		for _, r := range pairRows(h) {
			t.Run(r.tool+" "+r.version()+" "+r.way, func(t *testing.T) {
				cell := result{outcome: failed}
				defer func() { paired.add(r.tool, r.version(), r.way, twoNops, cell) }()
				cell = tryPair(t, h, r)
			})
		}
	}
}

// tryPair traces a program that fires for as long as the tracer runs. It returns only if every value between the first and
// the last event was seen: each as often as any other, give or take one.
func tryPair(t *testing.T, h host, r pairRow) result {
	p := tracetest.Command(t, exec.Command(built("twonops")))
	p.Expect("ready", testenv.Patience)
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
				p.Say(strconv.Itoa(rounds))
			}
		}
	}()
	out := h.run(t, r.words(built("twonops"), strconv.Itoa(p.PID()))...)
	close(ended)
	<-stopped
	var times [rounds]int
	for _, m := range regexp.MustCompile(`(?m)^(?:event )?(\d)$`).FindAllStringSubmatch(out, -1) {
		value, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		require.Less(t, value, rounds)
		times[value]++
	}
	for _, n := range times {
		require.GreaterOrEqual(t, n, 1, "%v", times)
		require.InDelta(t, times[0], n, 1, "%v", times)
	}
	return result{outcome: works}
}
