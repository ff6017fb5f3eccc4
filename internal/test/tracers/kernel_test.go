//go:build linux

package tracers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
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
			}, remark: func(k kind) string {
				if k.isC() {
					return ""
				}
				return "`trace-cmd report` shows negative numbers of 8 and 16 bits as unsigned."
			}},
	}
}

// ftraceWritable reports whether ftrace, which is enabled, may be enabled.
func ftraceWritable() bool {
	return !errors.Is(os.WriteFile("/proc/sys/kernel/ftrace_enabled", []byte("1"), 0), unix.EPERM)
}

// makeEvent defines an event of the kernel for the subject's probe, and returns its group and name.
func makeEvent(t *testing.T, s *subject) (group, name string) {
	notes, err := sdt.ReadFile(s.path)
	require.NoError(t, err)
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
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString(text)
	require.NoError(t, err)
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
	before, err := os.ReadFile(tracefs + "/tracing_on")
	require.NoError(t, err)
	defer put(t, tracefs+"/tracing_on", strings.TrimSpace(string(before)))
	group, name := makeEvent(t, s)
	data := filepath.Join(t.TempDir(), "trace.dat")
	said := host{}.run(t, "trace-cmd", "record", "-o", data, "-e", group+":"+name, "sleep", "0.3")
	if _, err := os.Stat(data); err != nil {
		return said
	}
	return host{}.run(t, "trace-cmd", "report", "-i", data)
}
