//go:build linux && (amd64 || arm64)

package command_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestCTF: babeltrace2 reads all events of every source, with their times and values.
func TestCTF(t *testing.T) {
	t.Parallel()
	babeltrace := testenv.NeedsTool(t, "babeltrace2", "babeltrace2")
	for _, source := range sources() {
		t.Run(source.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "trace")
			source.run(t, func(p *tracetest.Process) {
				tell(p, "requests 5")
				tell(p, "hostile")
				tell(p, "storm 5000")
			}, "trace", "operator:*", "-o", "ctf", "-O", dir)
			out, err := exec.Command(babeltrace, "--clock-seconds", dir).CombinedOutput()
			require.NoError(t, err, "%s", out)
			text := string(out)
			require.Equal(t, 5+1+5000, strings.Count(text, " operator:request__end: "))
			require.Equal(t, 10, strings.Count(text, " operator:query__start: "))
			require.Regexp(t, `(?m)^\[\d+\.\d{9}\] \(\+\?\.\?{9}\) operator:request__start: \{ pid = \d+, tid = \d+, goroutine = \d+, procname = "\d*" \}, \{ id = 1, parent = 0, path = "/0" \}$`, text)
			require.Regexp(t, `operator:request__end: .* \{ id = \d+, parent = 0, nanoseconds = \d+, error = "no such table", status = 500 \}`, text)
			require.Contains(t, text, "forged")
		})
	}
}

// TestCTFSelection: -w and -n select events, and what exists is not overwritten.
func TestCTFSelection(t *testing.T) {
	t.Parallel()
	babeltrace := testenv.NeedsTool(t, "babeltrace2", "babeltrace2")
	file := filepath.Join(t.TempDir(), "operator.rec")
	tell(startOperator(t, file), "requests 10")
	run := func(dir string, args ...string) result {
		return runCommand(t, append([]string{"trace", "--from", file, "-o", "ctf", "-O", dir}, args...)...)
	}
	dir := filepath.Join(t.TempDir(), "trace")
	require.Contains(t, run(dir, "-w", "status == 500").stderr, "wrote 2 events to "+dir+": read it with babeltrace2")
	require.Equal(t, 1, run(dir).status, "it exists")
	few, none := dir+".few", dir+".none"
	require.Contains(t, run(few, "-n", "7").stderr, "wrote 7 events")
	require.Contains(t, run(none, "-w", "status == 404").stderr, "wrote 0 events")
	for path, want := range map[string]int{dir: 2, few: 7, none: 0} {
		out, err := exec.Command(babeltrace, path).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, want, strings.Count(string(out), "operator:"), "%s", out)
	}
	out, err := exec.Command(babeltrace, dir, few).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 2+7, strings.Count(string(out), "operator:"), "both traces have one clock")
	for _, args := range [][]string{{"-O", ""}, {"-O", "-"}, {"-w", "1 +"}, {"--show", "pid"}, {"-w", "nothing == 1"}} {
		require.Equal(t, 2, run(dir+".refused", args...).status, args)
		require.NoDirExists(t, dir+".refused")
	}
	require.NoFileExists(t, "-")
}
