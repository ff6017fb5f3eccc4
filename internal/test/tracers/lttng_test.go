//go:build linux

package tracers

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// lttngRow works only with LTTng's kernel modules. Those of Debian 12 do not compile for its kernel.
func lttngRow() row {
	r := row{tool: "LTTng", way: "`--userspace-probe=sdt:…`", version: host{}.versionOf("lttng", "--version"),
		inGuest: *guest != "bookworm", works: lttngEvents, remark: func(kind) string {
			return "LTTng records no arguments of such a probe. That it was fired, when, and at which address was compared."
		}}
	if *guest == "" {
		r.cannot = always(obstacle{"LTTng traces user space through kernel modules of its own, which are not loaded here.", lttngRefuses})
	}
	return r
}

// lttngDaemon starts a daemon of this test's own.
func lttngDaemon(t *testing.T) host {
	h, home := host{}, t.TempDir()
	h.need(t, "lttng-sessiond")
	t.Setenv("LTTNG_HOME", home)
	t.Setenv("LTTNG_RUNDIR", home)
	ready := make(chan os.Signal, 1)
	signal.Notify(ready, syscall.SIGUSR1)
	defer signal.Stop(ready)
	daemon := tracetest.Command(t, exec.Command("lttng-sessiond", "--sig-parent"))
	t.Cleanup(func() {
		daemon.Signal(syscall.SIGTERM)
		_ = daemon.Wait(testenv.Patience)
	})
	select {
	case <-ready:
	case <-time.After(testenv.Patience):
		require.Fail(t, "the daemon is not ready")
	}
	return h
}

// lttngProbe is the option that names the subject's probe.
func lttngProbe(s *subject) string {
	return fmt.Sprintf("--userspace-probe=sdt:%s:%s:%s", s.path, s.provider, s.wide.Name)
}

// lttngRefuses is a proof: the daemon has no tracer in the kernel.
func lttngRefuses(t *testing.T, s *subject) {
	h := lttngDaemon(t)
	h.run(t, "lttng", "create", s.provider)
	require.NotContains(t, h.run(t, "lttng", "enable-event", "--kernel", lttngProbe(s), "event"), "created", "it works")
	// The daemon may hang up on that one before it has said why not.
	require.Contains(t, h.run(t, "lttng", "list", "--kernel"), "Kernel tracer not available")
}

// lttngEvents records for a second. Each event is at the address of the site, and later than the one
// before it.
func lttngEvents(t *testing.T, s *subject) {
	h, recorded := lttngDaemon(t), filepath.Join(t.TempDir(), "recorded")
	h.run(t, "lttng", "create", s.provider, "--output="+recorded)
	h.run(t, "lttng", "enable-event", "--kernel", lttngProbe(s), "event")
	h.run(t, "lttng", "start")
	time.Sleep(time.Second)
	h.run(t, "lttng", "stop")
	h.run(t, "lttng", "destroy")
	out := h.run(t, "babeltrace2", "--clock-seconds", recorded)
	notes, err := sdt.ReadFile(s.path)
	require.NoError(t, err)
	var last float64
	all := regexp.MustCompile(`(?m)^\[([0-9.]+)\].* event: .*\{ ip = 0x([0-9A-Fa-f]+) \}`).FindAllStringSubmatch(out, -1)
	require.GreaterOrEqual(t, len(all), wanted)
	for _, event := range all {
		seconds, err := strconv.ParseFloat(event[1], 64)
		require.NoError(t, err)
		require.Greater(t, seconds, last)
		last = seconds
		address, err := strconv.ParseUint(event[2], 16, 64)
		require.NoError(t, err)
		require.Equal(t, notes[len(notes)-1].Offset%pageSize, address%pageSize)
	}
}

const pageSize = 4096
