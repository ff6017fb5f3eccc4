//go:build linux && (amd64 || arm64)

package kernels

import (
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestCommandBudget: the command measures what an event costs on this kernel, and the instructions at which it probes
// functions where it can are those that the kernel does not single-step, as it does the entry.
func TestCommandBudget(t *testing.T) {
	testedBy(t, "gofunctions")
	server := startServer(t)
	out, err := exec.Command(commandPath(t), "count", "-v", "--budget", "100%", "-d", "1s", "-p", strconv.Itoa(server.PID()), "guestserver:*").CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, rest, found := strings.Cut(string(out), "and what its program does: ")
	require.True(t, found, "%s", out)
	line, _, _ := strings.Cut(rest, "\n")
	t.Log(line)
	prices := map[string]time.Duration{}
	for price := range strings.SplitSeq(line, ", ") {
		name, text, _ := strings.Cut(price, " ")
		prices[name], err = time.ParseDuration(text)
		require.NoError(t, err, "%s", out)
		require.Positive(t, prices[name], name)
	}
	cheap := map[string][]string{"amd64": {"push", "nop1"}, "arm64": {"branch", "return"}}
	for _, name := range cheap[runtime.GOARCH] {
		require.Contains(t, prices, name)
		testenv.Figure(t, name, float64(prices[name])/float64(prices["entry"]), 0.5, "of the entry's price")
	}
}
