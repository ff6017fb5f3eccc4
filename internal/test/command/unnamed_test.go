//go:build linux && (amd64 || arm64)

package command_test

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestUnnamed: arguments without names have their types, so that texts are shown as texts.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t, "unnamed")
	list := runCommand(t, "list", "-p", pid(p))
	require.Contains(t, list.stdout, "  unnamed:dynamic(arg0 int8, arg1 string)\n")
	require.Contains(t, list.stdout, "  unnamed:request__done(arg0 string, arg1 int32, arg2 time.Duration)\n")

	tr := startTrace(t, p, "trace", "-p", pid(p), "unnamed:*", "-n", "2")
	tell(p, "/index.html")
	require.NoError(t, tr.Wait(testenv.Patience))
	require.Regexp(t, ` unnamed:request__done +arg0="/index\.html" arg1=200 arg2=1s$`, tr.Lines()[1])
	require.Regexp(t, ` unnamed:dynamic +arg0=-1 arg1="/index\.html"$`, tr.Lines()[2])

	tr = startTrace(t, p, "count", "-p", pid(p), "unnamed:request__done", "--by", "arg0")
	tell(p, "/index.html")
	tell(p, "/about.html")
	tell(p, "/index.html")
	tr.interrupt()
	require.Equal(t, []string{
		`COUNT  PROBE                  arg0`,
		`    2  unnamed:request__done  "/index.html"`,
		`    1  unnamed:request__done  "/about.html"`,
	}, tr.Lines())
}

// TestUnnamedText: str, which arguments without types need, may be written of a text too.
func TestUnnamedText(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t, "unnamed")
	tr := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "unnamed:dynamic", "--show", "str(arg1), arg0", "-w", `str(arg1) == "text" && arg1 == "text"`, "-n", "1")
	tell(p, "text")
	events := tr.waitForEnd()
	require.Len(t, events, 1)
	require.Equal(t, map[string]any{"str(arg1)": "text", "arg0": -1.}, events[0].Args)

	wrong := runCommand(t, "trace", "-p", pid(p), "unnamed:dynamic", "--show", "path")
	require.Equal(t, 2, wrong.status)
	require.Contains(t, wrong.stderr, "undefined: path; the names are arg0, arg1, pid, ", "each name once")
}
