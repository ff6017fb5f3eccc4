//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestExportVersions: versions of a program whose arguments have other types are one metric, and
// a gauge has the value that was set last, whichever set it. A metric has the time since when it
// counts the events of both.
func TestExportVersions(t *testing.T) {
	const provider = "export_versions"
	e := startExporter(t, provider, saidRule+"  - {name: level, probe: 'PROVIDER:level', gauge: depth, labels: []}\n")
	const attached = `stapsdt_attach_time_seconds{metric="said_total"}`
	require.NotContains(t, e.scrape(), attached)
	first := startExportee(t, provider)
	e.waitForSites("said_total", 1)
	began := time.Now()
	t.Setenv("VERSION", "2")
	second := startExportee(t, provider)
	e.waitForSites("said_total", 2)
	at := time.UnixMilli(int64(math.Round(e.scrape()[attached] * 1000)))
	require.WithinRange(t, at, began, time.Now())
	tell(first, `say "5"`)
	tell(first, `say "five"`)
	tell(second, `say "5"`)
	all := e.scrape()
	require.Equal(t, map[string]float64{`{text="5"}`: 2, `{text="five"}`: 1}, series(all, "said_total"))
	require.EqualValues(t, at.UnixMilli(), math.Round(all[attached]*1000), "nothing was attached to since")
	for n, p := range []*tracetest.Process{first, second, first, first, second, second, first} {
		tell(p, "level "+[]string{"9", "-8", "7", "6", "-5", "4", "3"}[n])
		for range 5 {
			require.Equal(t, map[string]float64{"": []float64{9, -8, 7, 6, -5, 4, 3}[n]}, series(e.scrape(), "level"))
		}
	}
}

// TestExportProblems: a message about a wrong rule names it, and the other rules go on.
func TestExportProblems(t *testing.T) {
	t.Parallel()
	_, e := startExported(t, saidRule+`
  - {name: none_total, probe: "PROVIDER:said", counter: 1, by: [nothing]}
  - {name: large_total, probe: "PROVIDER:said", counter: 1, by: [text, {a: text}, {b: text}, {c: text}, {d: text}, {e: text}, {f: text}]}
`)
	e.waitForSites("said_total", 1)
	e.waitForMessage(`none_total: \w+:said in \S+ \(process \d+\) is not included: undefined: nothing`)
	e.waitForMessage(`large_total: \w+:said in \S+ \(process \d+\) is not included: this needs more than the 512 bytes`)
	all := e.scrape()
	for _, name := range []string{"none_total", "large_total"} {
		require.EqualValues(t, 1, all[`stapsdt_errors_total{metric="`+name+`"}`])
		require.Zero(t, all[`stapsdt_attached_sites{metric="`+name+`"}`])
	}
}

// TestExportRemoved: rules whose file is gone or wrong stay in force, and a message says so.
func TestExportRemoved(t *testing.T) {
	t.Parallel()
	p, e := startExported(t, saidRule)
	e.waitForSites("said_total", 1)
	require.NoError(t, os.Remove(e.rules))
	e.waitForValue("stapsdt_rules_reload_success", 0)
	tell(p, `say "x"`)
	require.Equal(t, map[string]float64{`{text="x"}`: 1}, series(e.scrape(), "said_total"))
	e.writeRules(saidRule + "\n  - wrong\n")
	e.Signal(syscall.SIGHUP)
	e.waitForMessage(regexp.QuoteMeta(e.rules) + `:\d+:\d+: .*the rules in force stay`)
	require.NoError(t, os.Remove(e.rules))
	require.NoError(t, syscall.Mkfifo(e.rules, 0o600))
	e.waitForMessage("there are no rules")
	require.NoError(t, os.Remove(e.rules))
	e.writeRules(saidRule)
	e.waitForValue("stapsdt_rules_reload_success", 1)
	require.Equal(t, map[string]float64{`{text="x"}`: 1}, series(e.scrape(), "said_total"))
}

// noRules selects probes that no program has.
const noRules = "metrics: [{name: fires_total, probe: 'a:b', counter: 1}]\n"

// TestExportLabelLeftOut: a label that programs in the kernel cannot read is reported once, and the exporter works.
func TestExportLabelLeftOut(t *testing.T) {
	const hide = "[ ! -d /sys/kernel/btf ] || mount -t tmpfs none /sys/kernel/btf"
	const two = "metrics: [{name: fires_total, probe: 'a:b', counter: 1}, {name: others_total, probe: 'a:c', counter: 1}]\n"
	e := newExporter(t, "", two, func(args ...string) *exec.Cmd {
		return inNamespaces(t, "--mount", hide, exec.Command(stapsdt(t), args...))
	})
	e.waitForMessage("the label executable is left out: programs in the kernel cannot read which executable a process has: the kernel does not describe its types")
	e.waitUntilServing()
	require.Equal(t, 1, strings.Count(e.Dump(), "is left out: programs"), "it is reported once for both metrics")
}

// TestExportNamespace: an exporter that cannot see the machine's processes warns of it.
func TestExportNamespace(t *testing.T) {
	e := newExporter(t, "", noRules, func(args ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"-pf", "--mount-proc", "--kill-child", stapsdt(t)}, args...)...)
	})
	e.waitForMessage("this PID namespace is not the machine's.*hostPID")
	e.Signal(os.Kill) // unshare ignores SIGTERM
}

// cgroupOf returns the path of a process's control group.
func cgroupOf(t *testing.T, p *tracetest.Process) string {
	t.Helper()
	groups := tracetest.Must(os.ReadFile("/proc/" + pid(p) + "/cgroup"))(t)
	return regexp.MustCompile(`(?m)^0::(.*)$`).FindStringSubmatch(string(groups))[1]
}

// TestExportShortage: a program that starts while the exporter has no descriptors left is counted once
// it has some again, and the message says what was short.
func TestExportShortage(t *testing.T) {
	testenv.Long(t, "it waits until the exporter has failed")
	const provider = "export_shortage"
	e := startExporter(t, provider, saidRule)
	before := e.scrape()
	require.Zero(t, before[`stapsdt_attached_sites{metric="said_total"}`])

	var limits unix.Rlimit
	require.NoError(t, unix.Prlimit(e.PID(), unix.RLIMIT_NOFILE, nil, &limits))
	for i, spare := range []uint64{0, 2, 4} { // what fails first depends on how many are left
		open := tracetest.Must(os.ReadDir("/proc/" + pid(e.Process) + "/fd"))(t)
		few := limits
		few.Cur = uint64(len(open)) + spare
		require.NoError(t, unix.Prlimit(e.PID(), unix.RLIMIT_NOFILE, &few, nil))
		p := startExportee(t, provider)
		time.Sleep(3 * time.Second) // longer than it takes to look at all processes
		require.NoError(t, unix.Prlimit(e.PID(), unix.RLIMIT_NOFILE, &limits, nil))
		e.waitForSites("said_total", float64(i+1))
		tell(p, `say "x"`)
		require.EqualValues(t, i+1, series(e.scrape(), "said_total")[`{text="x"}`])
	}
	e.waitForMessage("too many files are open: raise the limit")
	require.NotRegexp(t, "not permitted.*too many", e.Dump())
}

// TestExportExpiry: a series without events makes room for others, and goes on where it was if
// it returns. No event is lost.
func TestExportExpiry(t *testing.T) {
	t.Parallel()
	p, e := startExported(t, saidRule+`    series: 3
    expire: 5s
  - {name: size_bytes, probe: "PROVIDER:said", histogram: bytes, unit: bytes, buckets: [1, 4], by: [text], labels: [], series: 100, expire: 5s}
  - {name: latest_bytes, probe: "PROVIDER:said", gauge: bytes, by: [text], labels: [], series: 100, expire: 5s}
  - {name: stays_total, probe: "PROVIDER:said", counter: 1, by: [text], labels: [], expire: never}
`)
	e.waitForSites("stays_total", 1)
	said := map[string]float64{}
	say := func(texts ...string) {
		for _, text := range texts {
			tell(p, "say "+strconv.Quote(text))
			said[`{text="`+text+`"}`]++
		}
	}
	say("a", "bb", "bb", "ccccc", "d")
	require.Equal(t, map[string]float64{
		`{text="a"}`: 1, `{text="bb"}`: 2, `{text="ccccc"}`: 1, `{otel_metric_overflow="true"}`: 1,
	}, series(e.scrape(), "said_total"))
	e.waitForMessage(`said_total: 1 events had no room: all 3 series of a user are in use`)

	require.Eventually(t, func() bool {
		say("a") // stays, because it has events
		all := e.scrape()
		return len(series(all, "said_total")) == 2 && len(series(all, "size_bytes_count")) == 1 && len(series(all, "latest_bytes")) == 1
	}, testenv.Patience, 100*time.Millisecond)
	say("d", "d", "bb")
	all := e.scrape()
	require.Equal(t, map[string]float64{
		`{text="a"}`: said[`{text="a"}`], `{text="d"}`: 2, `{text="bb"}`: 3, `{otel_metric_overflow="true"}`: 1,
	}, series(all, "said_total"))
	delete(said, `{text="ccccc"}`)
	require.Equal(t, said, series(all, "size_bytes_count"))
	require.EqualValues(t, 6, all[`size_bytes_sum{text="bb"}`])
	require.EqualValues(t, 0, all[`size_bytes_bucket{text="bb",le="1"}`]+all[`size_bytes_bucket{text="bb",le="1.0"}`])
	require.EqualValues(t, 3, all[`size_bytes_bucket{text="bb",le="4"}`]+all[`size_bytes_bucket{text="bb",le="4.0"}`])
	said[`{text="ccccc"}`] = 1
	require.Equal(t, said, series(all, "stays_total"))
	sum := 0.0
	for _, n := range said {
		sum += n
	}
	for _, metric := range []string{"said_total", "size_bytes", "latest_bytes", "stays_total"} {
		require.Equal(t, sum, all[`stapsdt_events_total{metric="`+metric+`"}`], metric)
	}
}

// TestExportExpiryUnderFire: while series come, expire and return, every event is counted.
func TestExportExpiryUnderFire(t *testing.T) {
	t.Parallel()
	p, e := startExported(t, saidRule+"    expire: 1s\n")
	e.waitForSites("said_total", 1)
	fired := 0
	many := func(from, to int) {
		tell(p, fmt.Sprint("many ", from, " ", to))
		fired += to - from
	}
	for round := range 3 {
		half := 400 * (round % 2)
		many(half, half+400)
		require.Eventually(t, func() bool { // meanwhile the other half has events, and this one expires
			many(400-half, 800-half)
			_, ok := e.scrape()[fmt.Sprintf(`said_total{text="%d"}`, half)]
			return !ok
		}, testenv.Patience, time.Millisecond)
	}
	require.EqualValues(t, fired, e.scrape()[`stapsdt_events_total{metric="said_total"}`])
}
