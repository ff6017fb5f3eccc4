//go:build linux && (amd64 || arm64)

package functions

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// TestCalls counts with bpftrace and, if the probes have a file, with the command.
func TestCalls(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "calls")
		counted := p.counts(t)
		p.does("flow")
		calls := tracetest.Table(t, tr.Stop(), "calls")
		for function, n := range map[string]int{"flow": 1, "branch": 1, "leaf": 3, "failing": 1, "down": 0} {
			require.Equal(t, n, of(calls, function), "%s: %v", function, calls)
		}
		if counted != nil {
			by := counted()
			require.Equal(t, []int{1, 1, 3, 1}, []int{by["flow"], by["branch"], by["leaf"], by["failing"]}, "%v", by)
		}
	})
}

// counts counts entries by stapsdt, unless they are those of the interpreter. What it returns
// ends that.
func (p *program) counts(t *testing.T) func() map[string]int {
	text, _ := p.script(t, "calls")
	m := regexp.MustCompile(`usdt:(/\S+):(\w+:\w+)\n`).FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	names := regexp.MustCompile(`@calls\[str\(arg\d\), str\((arg\d)\)\]`).FindStringSubmatch(text)
	require.NotNil(t, names, text)
	stapsdt := tracetest.Build(t, "../../../cmd/stapsdt")
	// The interval shows when it has begun.
	cmd := tracetest.Command(t, exec.Command(stapsdt, "count", m[1]+":"+m[2], "--by", "str("+names[1]+")", "-i", "100ms", "-o", "json"))
	require.Eventually(t, func() bool {
		p.does("ready")
		return len(cmd.Lines()) > 0
	}, patience, 10*time.Millisecond)
	return func() map[string]int {
		cmd.Signal(syscall.SIGINT)
		require.NoError(t, cmd.Wait(patience))
		by := map[string]int{}
		for _, line := range cmd.Lines() {
			var row struct {
				By    map[string]string
				Count int
			}
			require.NoError(t, json.Unmarshal([]byte(line), &row), line)
			by[row.By["str("+names[1]+")"]] = row.Count
		}
		return by
	}
}
