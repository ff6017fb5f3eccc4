//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// anyRule counts the events of a probe whatever its arguments are.
const anyRule = `
metrics:
  - {name: said_total, probe: "PROVIDER:said", counter: 1, by: [pid], labels: []}
`

// kinds are the attacks of the command hostile, of which the last ones keep a processor busy.
var kinds = []string{"types", "files", "probes", "others", "symbols", "mappings", "names", "holes", "leases", "swapped", "storm", "written", "new"}

// commandAs returns a command as a user other than root, who can run a copy of the program.
func commandAs(t *testing.T, uid uint32, program string, args ...string) (cmd *exec.Cmd, directory string) {
	t.Helper()
	directory = t.TempDir()
	makeReadable(t, directory)
	require.NoError(t, os.Chown(directory, int(uid), int(uid)))
	cmd = exec.Command(readableCopy(t, program), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+directory)
	return cmd, directory
}

// startAttacks starts hostile processes, each of another user, and waits until they have done what they do.
// In the long run they leave the processors to others, because it measures, and a tracer does not promise processor time.
func startAttacks(t *testing.T, provider, name string, kinds ...string) {
	t.Helper()
	var all []*tracetest.Process
	for i, kind := range kinds {
		cmd, directory := commandAs(t, uint32(40000+i), tracetest.Build(t, "hostile"))
		cmd.Args = append(cmd.Args, kind, directory, provider, name)
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
		p := tracetest.Command(t, cmd)
		if !testing.Short() {
			require.NoError(t, syscall.Setpriority(syscall.PRIO_PROCESS, p.PID(), 19))
		}
		all = append(all, p)
	}
	for _, p := range all {
		p.Expect("ready", testenv.Patience)
	}
}

// countAfterStart starts an honest program of a user, and returns how long it takes until its events are
// counted.
func countAfterStart(t *testing.T, e *exporter, provider string, uid uint32) time.Duration {
	t.Helper()
	cmd, _ := commandAs(t, uid, tracetest.Build(t, "subject"), "exportee", provider)
	p := startProcess(t, cmd)
	start := time.Now()
	name := fmt.Sprintf(`{pid="%d"}`, p.PID())
	for series(e.scrape(), "said_total")[name] == 0 {
		require.Less(t, time.Since(start), testenv.Patience, "it is not counted")
		tell(p, `say "x"`)
		time.Sleep(20 * time.Millisecond)
	}
	p.Signal(os.Kill)
	return time.Since(start)
}

// requireCounted starts honest programs one after another. Each is counted. The long run measures how soon, and how much memory
// the exporter takes.
func requireCounted(t *testing.T, e *exporter, provider string, programs int) {
	t.Helper()
	for i := range programs {
		if i > 0 && !testing.Short() {
			time.Sleep(time.Second)
		}
		took := countAfterStart(t, e, provider, 30000)
		t.Logf("left out %v", series(e.scrape(), "stapsdt_skipped_files_total"))
		if !testing.Short() {
			testenv.Figure(t, "a program is counted after", took.Seconds(), 5, "s")
		}
	}
	if !testing.Short() {
		requirePeak(t, e.Process, 256)
	}
}

// requirePeak records the most memory that a process has had, in MB.
func requirePeak(t *testing.T, p *tracetest.Process, bound float64) {
	t.Helper()
	testenv.Figure(t, "memory", float64(peak(t, p)>>20), bound, "MB")
}

var highWater = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)

// peak returns the most memory that a process has had, in bytes.
func peak(t *testing.T, p *tracetest.Process) int {
	t.Helper()
	status := tracetest.Must(os.ReadFile("/proc/" + pid(p) + "/status"))(t)
	kilobytes := tracetest.Must(strconv.Atoi(string(highWater.FindSubmatch(status)[1])))(t)
	return kilobytes << 10
}

// TestHostile: a program is counted that starts while other users do what they can to the exporter. What it leaves out is
// counted by the reason. The long run has all 13 attacks; a program is counted within 5 s then, and the exporter takes less than
// 256 MB.
func TestHostile(t *testing.T) {
	testenv.NeedsRoot(t)
	const provider = "hostile"
	e := startExporter(t, provider, anyRule)
	attacks, programs, reasons := kinds, 5, []string{"time", "probes"}
	if testing.Short() {
		attacks, programs, reasons = []string{"files", "probes", "mappings", "leases"}, 1, []string{"time", "probes", "descriptors", "mappings", "unresponsive"}
		require.NoError(t, unix.Prlimit(e.PID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 1024}, nil))
	}
	startAttacks(t, provider, "said", attacks...)
	requireCounted(t, e, provider, programs)
	for _, reason := range reasons {
		require.Eventually(t, func() bool {
			return e.scrape()[`stapsdt_skipped_files_total{reason="`+reason+`"}`] > 0
		}, testenv.Patience, 100*time.Millisecond, reason)
	}
}

// TestLarge: what is large and not hostile is traced completely: a file with 50,000 probes, and 80 files
// with the same probe.
func TestLarge(t *testing.T) {
	testenv.Measures(t, "how soon a program is counted beside 50,000 sites")
	testenv.NeedsRoot(t)
	for kind, sites := range map[string]float64{"large": 50_000, "fleet": 80} {
		t.Run(kind, func(t *testing.T) {
			provider := "large_" + kind
			e := startExporter(t, provider, anyRule)
			start := time.Now()
			startAttacks(t, provider, "said", kind)
			e.waitForSites("said_total", sites)
			t.Logf("attached after %v, at most %d MB", time.Since(start), peak(t, e.Process)>>20)
			requireCounted(t, e, provider, 1)
		})
	}
}

// TestHostileAlone: TestHostile for each of the attacks, by three users, and with few descriptors. The
// kernel takes seconds for the 50,000 sites of a large file.
func TestHostileAlone(t *testing.T) {
	testenv.Measures(t, "how soon a program is counted")
	testenv.NeedsRoot(t)
	for _, kind := range append(kinds[:len(kinds):len(kinds)], "large") {
		t.Run(kind, func(t *testing.T) {
			provider := "hostile_" + kind
			e := startExporter(t, provider, anyRule)
			require.NoError(t, unix.Prlimit(e.PID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 1024}, nil))
			startAttacks(t, provider, "said", kind, kind, kind)
			requireCounted(t, e, provider, 1)
		})
	}
}

// TestDescriptorShare: a user has an eighth of the descriptors also if the sites of a file must be
// attached to one by one, or in one process after another.
func TestDescriptorShare(t *testing.T) {
	testenv.NeedsRoot(t)
	const limit, share = 1024, 1024 / 8
	for kind, done := range map[string]string{
		"refused": `stapsdt_attached_sites{metric="said_total"}`,
		"open":    `stapsdt_skipped_files_total{reason="descriptors"}`,
	} {
		t.Run(kind, func(t *testing.T) {
			provider := "share_" + kind
			e := startExporter(t, provider, anyRule)
			require.NoError(t, unix.Prlimit(e.PID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}, nil))
			descriptors := func() int {
				return len(tracetest.Must(os.ReadDir("/proc/" + pid(e.Process) + "/fd"))(t))
			}
			before := descriptors()
			startAttacks(t, provider, "said", kind)
			require.Eventually(t, func() bool { return e.scrape()[done] > 0 }, testenv.Patience, 20*time.Millisecond)
			require.InDelta(t, before+share, descriptors(), share/8)
		})
	}
}

// startAs starts an exportee as a user, or as one whom root has mapped into a user namespace.
func startAs(t *testing.T, provider string, uid uint32, mapped bool) *tracetest.Process {
	t.Helper()
	cmd, _ := commandAs(t, uid, tracetest.Build(t, "subject"), "exportee", provider)
	if mapped {
		testenv.NeedsNamespaces(t, "user", unix.CLONE_NEWUSER)
		attr := cmd.SysProcAttr
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true}
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(uid), Size: 1}}
		attr.GidMappings = attr.UidMappings
	}
	return startProcess(t, cmd)
}

// TestShares: a user can have all series of a metric and as many open operations as are counted, and then others still have some. Whose
// a process is does not depend on the user that it has in a user namespace.
func TestShares(t *testing.T) {
	const provider, most = "shares", 1 << 16
	e := startExporter(t, provider, `
metrics:
  - {name: said_total, probe: "PROVIDER:said", counter: 1, by: [text], labels: [], series: 4}
  - {name: job_seconds, start: "PROVIDER:job__start", end: "PROVIDER:job__end", duration: true, unit: seconds, labels: []}
`)
	greedy, honest := startAs(t, provider, 40001, false), startAs(t, provider, 40002, false)
	mapped, root := startAs(t, provider, 40003, true), startExportee(t, provider)
	e.waitForSites("said_total", 4)
	e.waitForSites("job_seconds", 8)
	tell(greedy, "many 0 6")
	tell(greedy, "begin 66000")
	tell(honest, `say "honest"`)
	tell(honest, "job 10")
	tell(mapped, "many 100 102")
	tell(root, `say "root"`)
	all := e.scrape()
	said := series(all, "said_total")
	require.Len(t, said, 4+1+2+1)
	require.EqualValues(t, 1, said[`{text="honest"}`])
	require.EqualValues(t, 1, said[`{text="101"}`])
	require.EqualValues(t, 3, said[`{otel_metric_overflow="true"}`], "two of the first user, and that of root, whose namespace has two")
	require.EqualValues(t, 2*10, all["job_seconds_count"])
	require.EqualValues(t, 66000-most, all[`stapsdt_lost_events_total{metric="job_seconds",reason="full"}`])
}
