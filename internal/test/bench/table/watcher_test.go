//go:build linux

package table

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// watch runs a verb of the command on functions of a process, and returns when the kernel has put breakpoints at all
// their sites.
func watch(t *testing.T, pid int, args ...string) *tracetest.Process {
	sites := sitesOf(t, pid, args)
	w := tracetest.Command(t, exec.Command(filepath.Join(*work, "stapsdt"), append(args, "-o", "json", "-p", strconv.Itoa(pid))...))
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	require.NoError(t, err)
	defer memory.Close()
	require.Eventually(t, func() bool { return probed(memory, sites) }, testenv.Patience, time.Millisecond, "stapsdt does not attach")
	return w
}

// sitesOf returns the addresses of the sites of functions that specs among the arguments name, in a program that is not
// a PIE.
func sitesOf(t *testing.T, pid int, args []string) (sites []int64) {
	const start = 0x400000
	for _, spec := range args {
		if !strings.HasPrefix(spec, "go:") {
			continue
		}
		name, returns := strings.CutSuffix(spec, ":return")
		out, err := exec.Command(filepath.Join(*work, "stapsdt"), "list", "-o", "json", "-p", strconv.Itoa(pid), name).Output()
		require.NoError(t, err, name)
		var fn struct {
			Offset  int64
			Returns []int64
		}
		require.NoError(t, json.Unmarshal(out, &fn))
		if returns || args[0] == "latency" {
			for _, offset := range fn.Returns {
				sites = append(sites, start+offset)
			}
		}
		if !returns {
			sites = append(sites, start+fn.Offset)
		}
	}
	return sites
}

// probed reports whether there are breakpoints at all addresses.
func probed(memory *os.File, sites []int64) bool {
	for _, at := range sites {
		var b [4]byte
		if _, err := memory.ReadAt(b[:], at); err != nil || b[0] != 0xcc && b != [4]byte{0xa0, 0x00, 0x20, 0xd4} {
			return false
		}
	}
	return true
}

// stopWatching ends the command and returns what it has counted, by probe.
func stopWatching(t *testing.T, w *tracetest.Process) map[string]int {
	w.Signal(os.Interrupt)
	require.NoError(t, w.Wait(testenv.Patience))
	counts := map[string]int{}
	for _, line := range w.Lines() {
		var row struct {
			Probe, End string
			Count      int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row), line)
		counts[row.Probe+row.End] += row.Count
	}
	return counts
}
