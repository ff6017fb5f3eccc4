//go:build linux && (amd64 || arm64)

package command_test

import (
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// startAs starts an exportee as a user, or as one whom root has mapped into a user namespace.
func startAs(t *testing.T, provider string, uid uint32, mapped bool) *tracetest.Process {
	t.Helper()
	cmd, _ := commandAs(t, uid, tracetest.Build(t, "exportee"), provider)
	if mapped {
		attr := cmd.SysProcAttr
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true}
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(uid), Size: 1}}
		attr.GidMappings = attr.UidMappings
	}
	p := tracetest.Command(t, cmd)
	p.Expect("ready", testenv.Patience)
	return p
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
