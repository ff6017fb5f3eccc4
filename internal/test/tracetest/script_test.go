//go:build linux

package tracetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

func TestScript(t *testing.T) {
	testenv.NeedsRoot(t)
	directory := t.TempDir()
	script := filepath.Join(directory, "script.bt")
	require.NoError(t, os.WriteFile(script, []byte(`usdt:*:demo:stack { printf("%d %d\n", $1, arg1); }`), 0o600))
	compiled, _ := demo(t)
	program := filepath.Join(directory, "demo-0a1b.so")
	require.NoError(t, os.Rename(compiled, program))
	traced, other := start(t, program), start(t, program)
	require.Equal(t, fmt.Sprintf("/proc/%d/root%s", traced.PID(), program), tracetest.ProbesFile(t, traced.PID(), "demo"))

	tr := tracetest.Script(t, traced, script, "7")
	other.Say("stack 1 2")
	other.Expect("done", timeout)
	traced.Say("stack 1 3")
	traced.Expect("done", timeout)
	require.Equal(t, []string{"7 3"}, tr.WaitLines(1, timeout))
	tr.Stop()
}
