//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

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
		open, err := os.ReadDir("/proc/" + pid(e.Process) + "/fd")
		require.NoError(t, err)
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
	e.waitForMessage("too many open files; trying again")
	require.NotRegexp(t, "not permitted.*too many", e.Dump())
}
