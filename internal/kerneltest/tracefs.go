//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/tracetest"

	"github.com/stretchr/testify/require"
)

// tracingFolder returns where tracefs is mounted, with uprobe events.
func tracingFolder(t *T) string {
	var err error
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if _, err = os.Stat(dir + "/uprobe_events"); err == nil {
			return dir
		}
	}
	tracetest.Need(t, "tracefs with uprobe_events", err)
	return ""
}

// tracefs attaches by hand, as a shell script would, and has the kernel itself
// print the arguments.
func tracefs(t *T, where placement) {
	dir := tracingFolder(t)
	p := newProvider(t, "byhand", where)
	event := addProbe(t, p, "event", stapsdt.String, stapsdt.Int32)
	require.NoError(t, p.Load())

	put := func(file, text string) {
		f, err := os.OpenFile(dir+"/"+file, os.O_WRONLY|os.O_APPEND, 0)
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
	put("uprobe_events", fmt.Sprintf("p:stapsdt/event %s:%#x %s", p.Path(), noteOf(t, event).Offset, fetch))
	t.Cleanup(func() { put("uprobe_events", "-:stapsdt/event") })

	require.False(t, event.Enabled())
	put("events/stapsdt/event/enable", "1")
	require.True(t, event.Enabled())
	for i := range 5 {
		require.NoError(t, event.Fire(fmt.Sprintf("text %d", i), -i))
	}
	require.True(t, event.Enabled())
	put("events/stapsdt/event/enable", "0")
	require.False(t, event.Enabled())
	require.NoError(t, event.Fire("nobody sees it", 1))

	trace, err := os.ReadFile(dir + "/trace")
	require.NoError(t, err)
	for i := range 5 {
		require.Equal(t, 1, strings.Count(string(trace), fmt.Sprintf("text=\"text %d\" number=%d\n", i, -i)), "%s", trace)
	}
	require.NotContains(t, string(trace), "nobody")
	put("trace", "\n")
}
