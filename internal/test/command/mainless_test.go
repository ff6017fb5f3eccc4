//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// startMainless starts a program that can end its main thread.
func startMainless(t *testing.T) (p *tracetest.Process, provider string) {
	t.Helper()
	gcc, path := needsSDT(t), filepath.Join(t.TempDir(), "mainless")
	provider = unique("mainless")
	runTool(t, exec.Command(gcc, "-O1", "-Wall", "-pthread", "-DPROVIDER="+provider, "-o", path, "testdata/mainless.c"))
	return startProcess(t, exec.Command(path)), provider
}

// endMain ends the main thread of the program.
func endMain(t *testing.T, p *tracetest.Process) {
	t.Helper()
	tell(p, "end")
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		return err == nil && strings.Contains(string(stat), ") Z ")
	}, testenv.Patience, time.Millisecond)
}

// TestMainThreadEnds: a count is whole if the main thread ends meanwhile.
func TestMainThreadEnds(t *testing.T) {
	t.Parallel()
	p, provider := startMainless(t)
	tr := startTrace(t, p, "count", "-o", "json", "-p", pid(p), provider+":hit")
	tell(p, "fire 10")
	endMain(t, p)
	time.Sleep(2 * time.Second) // meanwhile, the command looks for processes that have ended
	tell(p, "fire 20")
	rows := tr.stopCounting()
	require.Len(t, rows, 1)
	require.Equal(t, 30, int(rows[0].Count))
}

// TestMainThreadEnded: a process whose main thread has ended is traced like others.
func TestMainThreadEnded(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	p, provider := startMainless(t)
	endMain(t, p)
	r := runCommand(t, "list", "-p", pid(p))
	require.Contains(t, r.stdout, provider+":hit(int32)")
	tr := startTrace(t, p, "count", "-o", "json", "-p", pid(p), provider+":hit")
	tell(p, "fire 10")
	rows := tr.stopCounting()
	require.Len(t, rows, 1)
	require.Equal(t, 10, int(rows[0].Count))
	r = runCommand(t, "doctor", "-p", pid(p), provider+":hit")
	require.Contains(t, r.stdout, "Nothing keeps stapsdt from seeing "+provider+":hit")
	e := startExporter(t, provider, `metrics: [{name: hit_total, counter: 1, probe: "PROVIDER:hit", labels: []}]`)
	require.Eventually(t, func() bool { tell(p, "fire 1"); return e.scrape()["hit_total"] > 0 }, testenv.Patience, 10*time.Millisecond)
}
