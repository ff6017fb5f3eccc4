//go:build linux && (amd64 || arm64)

package kernels

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// TestCommandRights: with the capabilities of docs/command.md the command attaches, or says that
// it needs CAP_SYS_ADMIN. Kernels before 6.6 with the repair of CVE-2025-38466 demand it.
func TestCommandRights(t *testing.T) {
	testedBy(t, "command")
	server := startServer(t)
	command := filepath.Join(t.TempDir(), "stapsdt")
	content := tracetest.Must(os.ReadFile(tracetest.Stapsdt(t)))(t)
	require.NoError(t, os.WriteFile(command, content, 0o755))
	for path := filepath.Dir(command); path != filepath.Clean(os.TempDir()); path = filepath.Dir(path) {
		require.NoError(t, os.Chmod(path, 0o755))
	}
	capabilities := []uintptr{
		unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_DAC_READ_SEARCH,
	}
	// Before Linux 5.11. Root of a sandbox, with a newer kernel, may lack it.
	if held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0); err == nil && held == 1 {
		capabilities = append(capabilities, unix.CAP_SYS_RESOURCE)
	}
	says := func(capabilities []uintptr, args ...string) (status int, said string) {
		c := exec.Command(command, append(args, "-p", strconv.Itoa(server.PID()), "guestserver:request__done")...)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		c.SysProcAttr = &syscall.SysProcAttr{
			Credential:  &syscall.Credential{Uid: 65534, Gid: 65534},
			AmbientCaps: capabilities,
		}
		if err := c.Run(); err != nil {
			require.IsType(t, new(exec.ExitError), err)
		}
		return c.ProcessState.ExitCode(), out.String()
	}
	const refusal = "stapsdt: attaching to probes on this kernel needs CAP_SYS_ADMIN; "
	status, said := says(capabilities, "trace", "-d", "10ms")
	_, diagnosis := says(capabilities, "doctor")
	if status == 0 {
		require.NotContains(t, diagnosis, "needs CAP_SYS_ADMIN.")
	} else { // before Linux 6.6
		require.Equal(t, 4, status, said)
		require.Contains(t, said, refusal)
		require.Contains(t, diagnosis, "Attaching to probes needs CAP_SYS_ADMIN.")
	}
	t.Attr("rights", strconv.Itoa(status))
	status, said = says(append(slices.Clone(capabilities), unix.CAP_SYS_ADMIN), "trace", "-d", "10ms")
	require.Zero(t, status, said)
}

// TestCommandWritten: the command has a lease on a file that it is attached to. It detaches before the
// file is opened for writing, and attaches to what was written.
func TestCommandWritten(t *testing.T) {
	server := startServer(t)
	image := tracetest.ProbesFile(t, server.PID(), "guestserver")
	content, err := os.ReadFile(image)
	require.NoError(t, err)

	tracer := tracetest.Command(t, exec.Command(tracetest.Stapsdt(t), "trace", "-o", "json", "-a", "guestserver:*"))
	for range 3 {
		await(t, "the command to attach", tracer, func() bool { return enabled(server, "first") })
		_, err = os.OpenFile(image, os.O_WRONLY|unix.O_NONBLOCK, 0)
		require.ErrorIs(t, err, unix.EAGAIN, "there is no lease")

		start := time.Now()
		writer, err := os.OpenFile(image, os.O_WRONLY, 0)
		require.NoError(t, err)
		if waited := time.Since(start); !testing.Short() { // with twice the bound, the kernel has taken the lease away
			testenv.Figure(t, "an open waits", waited.Seconds(), breakTime(t).Seconds()/2, "s")
		}
		require.False(t, enabled(server, "first"), "it is attached to a file that is written")
		lines := len(tracer.Lines())
		_, err = writer.Write(content)
		require.NoError(t, err)
		require.NoError(t, writer.Close())
		await(t, "events after the file was written", tracer, func() bool { return enabled(server, "first") && len(tracer.Lines()) > lines })
	}
}

// breakTime is how long the kernel waits for a tracer that does not give its lease up.
func breakTime(t *testing.T) time.Duration {
	text := tracetest.Must(os.ReadFile("/proc/sys/fs/lease-break-time"))(t)
	seconds := tracetest.Must(time.ParseDuration(string(text[:len(text)-1]) + "s"))(t)
	return seconds
}

// exportRules have a metric of each kind of program.
const exportRules = `
metrics:
  - name: events_total
    probe: guestserver:request__done
    counter: 1
    where: status != 99 && uid == 0 && executable == %[1]q
    by: [cached]
    labels: [container]
  - name: elapsed_seconds
    probe: guestserver:request__done
    histogram: elapsed
    unit: seconds
    scale: 1e-9
    buckets: native
    where: status != 99
    labels: []
  - name: jobs_in_flight
    start: guestjobs:job__start
    end: guestjobs:job__end
    key: thread
    in_flight: true
    labels: [executable]
`

// TestCommandExport: Prometheus gets what was fired, by who fired it.
func TestCommandExport(t *testing.T) {
	testedBy(t, "command")
	executable := tracetest.Must(os.Executable())(t)
	server := startServer(t)
	exporter := startExporter(t, fmt.Sprintf(exportRules, filepath.Base(executable)), 1+1+2)
	require.True(t, enabled(server, "all"))
	lines := scrape(t, exporter)
	var sum time.Duration
	for _, r := range requests() {
		sum += r.elapsed
	}
	n := len(requests())
	for _, line := range []string{
		fmt.Sprintf(`events_total{cached="true",container="",namespace="",pod=""} %d`, n/2),
		fmt.Sprintf(`events_total{cached="false",container="",namespace="",pod=""} %d`, n/2),
		fmt.Sprintf(`elapsed_seconds_count{container="",namespace="",pod=""} %d`, n),
		fmt.Sprintf(`elapsed_seconds_sum{container="",namespace="",pod=""} %v`, sum.Seconds()),
		`stapsdt_lost_events_total{metric="events_total",reason="unevaluated"} 0`,
		`stapsdt_errors_total{metric="jobs_in_flight"} 0`,
	} {
		require.Contains(t, lines, line)
	}
}

// startExporter starts an exporter, and waits until it has attached to all sites of its metrics, which it does one after another.
func startExporter(t *testing.T, rules string, all int, flags ...string) *tracetest.Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(rules), 0o600))
	exporter := tracetest.Command(t, exec.Command(tracetest.Stapsdt(t), append([]string{"export", "-c", file, "--listen", "127.0.0.1:0"}, flags...)...))
	attached := regexp.MustCompile(`^stapsdt_attached_sites\{.*\} (\d)$`)
	await(t, "the exporter", exporter, func() bool {
		sites := 0
		for _, line := range scrape(t, exporter) {
			if m := attached.FindStringSubmatch(line); m != nil {
				sites += int(m[1][0] - '0')
			}
		}
		return sites == all
	})
	return exporter
}

// scrape returns the lines that an exporter answers to Prometheus.
func scrape(t *testing.T, exporter *tracetest.Process) []string {
	t.Helper()
	url := exporter.WaitSaid(regexp.MustCompile(`http://\S+/metrics`), starting)[0]
	response := tracetest.Must(http.Get(url))(t)
	defer response.Body.Close()
	return strings.Split(string(tracetest.Must(io.ReadAll(response.Body))(t)), "\n")
}
