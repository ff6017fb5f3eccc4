//go:build linux

package tracers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tracefs is where scripts/lib/tracers.sh mounts it.
const tracefs = "/sys/kernel/tracing"

func kernelRows() []row {
	var noTraceCmd func(kind) *obstacle
	if !ftraceWritable() {
		noTraceCmd = always(obstacle{"trace-cmd begins with a write to `/proc/sys/kernel/ftrace_enabled`, which this kernel refuses.",
			func(t *testing.T, s *subject) {
				require.Regexp(t, `Can't enable ftrace`, traceCmd(t, s), "it works, or fails for another reason")
			}})
	}
	return []row{
		{tool: "tracefs", way: "`uprobe_events`, by hand", version: kernel, works: uprobeEvents},
		{tool: "trace-cmd", way: "`record -e`, of an event made by hand", version: host{}.versionOf("trace-cmd", "--version"),
			cannot: noTraceCmd, inGuest: true, works: func(t *testing.T, s *subject) {
				require.NoError(t, compare(named(traceCmd(t, s), s.wide.Name), s.wide, len(s.wide.Types), smallUnsigned))
			}, remark: ofGo("`trace-cmd report` shows negative numbers of 8 and 16 bits as unsigned.")},
	}
}

// ftraceWritable reports whether ftrace, which is enabled, may be enabled.
func ftraceWritable() bool {
	return !errors.Is(os.WriteFile("/proc/sys/kernel/ftrace_enabled", []byte("1"), 0), unix.EPERM)
}

// makeEvent defines an event of the kernel for the subject's probe, and returns its group and name.
func makeEvent(t *testing.T, s *subject) (group, name string) {
	notes := tracetest.Must(sdt.ReadFile(s.path))(t)
	note := notes[len(notes)-1]
	require.Equal(t, s.wide.Name, note.Name)
	definition := fmt.Sprintf("p:%s/%s %s:%#x", s.provider, s.wide.Name, s.path, note.Offset)
	for i, a := range note.Args {
		o := a.Operand
		require.NoError(t, a.Err)
		// The kernel's own names: %di and not %rdi.
		fetch := "%" + strings.TrimPrefix(o.Base.Full, "%")
		if rest, ok := strings.CutPrefix(fetch, "%r"); ok && strings.Trim(rest, "0123456789") != "" {
			fetch = "%" + rest
		}
		if o.Kind == sdt.OperandMemory {
			fetch = fmt.Sprintf("%+d(%s)", o.Displacement, fetch)
		}
		typ := s.wide.Types[i]
		kernelType := fmt.Sprintf("u%d", 8*typ.Size())
		switch {
		case typ == stapsdt.String:
			fetch, kernelType = "+0("+fetch+")", "ustring"
		case typ.Signed():
			kernelType = fmt.Sprintf("s%d", 8*typ.Size())
		}
		definition += fmt.Sprintf(" arg%d=%s:%s", i+1, fetch, kernelType)
	}
	put(t, tracefs+"/uprobe_events", definition)
	t.Cleanup(func() { put(t, tracefs+"/uprobe_events", "-:"+s.provider+"/"+s.wide.Name) })
	return s.provider, s.wide.Name
}

func put(t *testing.T, file, text string) {
	t.Helper()
	t.Logf("$ echo '%s' >>%s", text, file)
	f := tracetest.Must(os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0))(t)
	defer f.Close()
	_ = tracetest.Must(f.WriteString(text))(t)
}

// uprobeEvents has the kernel print the events, into a buffer of our own.
func uprobeEvents(t *testing.T, s *subject) {
	instance := filepath.Join(tracefs, "instances", s.provider)
	require.NoError(t, os.Mkdir(instance, 0o700))
	t.Cleanup(func() { require.NoError(t, os.Remove(instance)) })
	group, name := makeEvent(t, s)
	enable := filepath.Join(instance, "events", group, name, "enable")
	var list [][]string
	put(t, enable, "1")
	enough := func() bool {
		text, err := os.ReadFile(instance + "/trace")
		list = named(string(text), name)
		return err != nil || len(list) >= wanted
	}
	over := time.Now().Add(testenv.Patience)
	for !enough() && time.Now().Before(over) {
		time.Sleep(10 * time.Millisecond)
	}
	put(t, enable, "0")
	require.NoError(t, compare(list, s.wide, len(s.wide.Types), plain))
}

// traceCmd returns what trace-cmd reports. It stops the tracing of the whole machine at its end, which others may use.
func traceCmd(t *testing.T, s *subject) string {
	before := tracetest.Must(os.ReadFile(tracefs + "/tracing_on"))(t)
	defer put(t, tracefs+"/tracing_on", strings.TrimSpace(string(before)))
	group, name := makeEvent(t, s)
	data := filepath.Join(t.TempDir(), "trace.dat")
	said := host{}.run(t, "trace-cmd", "record", "-o", data, "-e", group+":"+name, "sleep", "0.3")
	if _, err := os.Stat(data); err != nil {
		return said
	}
	return host{}.run(t, "trace-cmd", "report", "-i", data)
}

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
	notes := tracetest.Must(sdt.ReadFile(s.path))(t)
	var last float64
	all := regexp.MustCompile(`(?m)^\[([0-9.]+)\].* event: .*\{ ip = 0x([0-9A-Fa-f]+) \}`).FindAllStringSubmatch(out, -1)
	require.GreaterOrEqual(t, len(all), wanted)
	for _, event := range all {
		seconds := tracetest.Must(strconv.ParseFloat(event[1], 64))(t)
		require.Greater(t, seconds, last)
		last = seconds
		address := tracetest.Must(strconv.ParseUint(event[2], 16, 64))(t)
		require.Equal(t, notes[len(notes)-1].Offset%pageSize, address%pageSize)
	}
}

const pageSize = 4096
