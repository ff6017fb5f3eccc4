//go:build linux && (amd64 || arm64)

package kernels

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestTracefs attaches by hand, as a shell script would, and has the kernel print
// the arguments.
func TestTracefs(t *testing.T) { forEachPlacement(t, testTracefs) }

func testTracefs(t *testing.T, where placement) {
	tracetest.NeedUprobes(t)
	const dir = "/sys/kernel/tracing"
	_, err := os.Stat(dir + "/uprobe_events")
	testenv.Needs(t, "tracefs with uprobe_events", err)
	p := newProvider(t, "byhand", where)
	event := addProbe(t, p, "event", stapsdt.String, stapsdt.Int32)
	require.NoError(t, p.Load())

	put := func(file, text string) {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		defer f.Close()
		_, err = f.WriteString(text)
		require.NoError(t, err, "%s: %s", file, text)
	}
	registers := []any{"%di", "%si"}
	if runtime.GOARCH == "arm64" {
		registers = []any{"%x0", "%x1"}
	}
	fetch := fmt.Sprintf("text=+0(%s):ustring number=%s:s32", registers...)
	// The machine shares its events and its buffer. So the event has a group, and
	// the test a buffer, of their own.
	group := fmt.Sprintf("stapsdt_%d", os.Getpid())
	put(dir+"/uprobe_events", fmt.Sprintf("p:%s/event %s:%#x %s", group, p.Path(), noteOf(t, event).Offset, fetch))
	t.Cleanup(func() { put(dir+"/uprobe_events", "-:"+group+"/event") })
	buffer := filepath.Join(dir, "instances", group)
	require.NoError(t, os.Mkdir(buffer, 0o700))
	t.Cleanup(func() { require.NoError(t, os.Remove(buffer)) })
	enable := filepath.Join(buffer, "events", group, "event", "enable")

	require.False(t, event.Enabled())
	put(enable, "1")
	require.True(t, event.Enabled())
	for i := range 5 {
		require.NoError(t, event.Fire(fmt.Sprintf("text %d", i), -i))
	}
	require.True(t, event.Enabled())
	put(enable, "0")
	require.False(t, event.Enabled())
	require.NoError(t, event.Fire("not traced", 1))

	trace, err := os.ReadFile(buffer + "/trace")
	require.NoError(t, err)
	for i := range 5 {
		require.Equal(t, 1, strings.Count(string(trace), fmt.Sprintf("text=\"text %d\" number=%d\n", i, -i)), "%s", trace)
	}
	require.NotContains(t, string(trace), "not traced")
}
