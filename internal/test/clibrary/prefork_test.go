//go:build linux && (amd64 || arm64)

package clibrary

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestPrefork: of a hundred workers of a server in Python, each of which is killed at random, every one leaves a
// recording of its own with all of its fires that have returned. Few of these are kept, beside the server's.
func TestPrefork(t *testing.T) {
	testenv.Long(t, "it starts an interpreter, and forks it a hundred times")
	testenv.NeedsTool(t, "python3", "python3")
	dir := tracetest.Must(os.MkdirTemp("/dev/shm", "prefork"))(t)
	defer os.RemoveAll(dir)

	const workers = 100
	cmd := exec.Command("python3", "testdata/prefork.py", strconv.Itoa(workers))
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+build(t)+"/out", "PYTHONPATH="+source+"/bindings/python", "PYTHONDONTWRITEBYTECODE=1",
		"STAPSDT_DIR="+dir, "STAPSDT_SOCKET=1", "STAPSDT_RECORD="+dir+"/%p.rec,1M")
	server := tracetest.Command(t, cmd)
	server.Expect("over", testenv.Patience)
	events := uint64(0)
	for _, line := range server.Lines() {
		worker, ok := strings.CutPrefix(line, "worker ")
		if !ok {
			continue
		}
		pid, returned, _ := strings.Cut(worker, " ")
		fired := tracetest.Must(strconv.ParseUint(returned, 10, 64))(t)
		events += requireWorker(t, dir+"/"+pid+".rec.kept", pid, fired)
	}
	t.Logf("%d workers have left %d events", workers, events)
	recordings := tracetest.Must(filepath.Glob(dir + "/*.rec"))(t)
	const together = 10 // workers, which may have ended when the last one has begun
	require.Greater(t, len(recordings), 5)
	require.LessOrEqual(t, len(recordings), 1+5+together)
	server.Hangup()
	require.NoError(t, server.Wait(testenv.Patience))
	require.Contains(t, stapsdt(t, "list", "--from", dir+"/"+strconv.Itoa(server.PID())+".rec"), "server:request(path string, n uint64)  # 1 event\n")
}

// requireWorker requires that the recording of a worker has all fires that have returned, and at most the one
// in which it was killed besides.
func requireWorker(t *testing.T, path, pid string, fired uint64) (seen uint64) {
	t.Helper()
	r := open(t, path)
	require.Equal(t, pid, strconv.Itoa(int(r.Head().PID)))
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Equal(t, r.Lost()+seen, e.Word(1))
		require.Equal(t, "/item/"+strconv.FormatUint(e.Word(1), 10), string(e.Text(0)))
		seen++
	}
	require.GreaterOrEqual(t, seen+r.Lost(), fired)
	require.LessOrEqual(t, seen+r.Lost(), fired+1)
	return seen
}
