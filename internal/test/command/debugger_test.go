//go:build linux && (amd64 || arm64)

package command_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// startContained starts the subject in a control group such as that of a container, whose ID it returns.
func startContained(t *testing.T) (p *tracetest.Process, id string) {
	t.Helper()
	id = newContainerID()
	group := newCgroup(t, "debugged-"+id)
	p = startListening(t)
	require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(pid(p)), 0))
	t.Cleanup(func() {
		p.Signal(os.Kill)
		_ = p.Wait(testenv.Patience)
	})
	return p, id
}

// TestDebugger: what kubectl stapsdt runs in a pod finds the container's processes, answers when its standard input ends or says so,
// and keeps a recording until it has been fetched.
func TestDebugger(t *testing.T) {
	t.Parallel()
	p, id := startContained(t)
	ask := func(args ...string) *tracetest.Process {
		t.Helper()
		q := tracetest.Command(t, unprivileged(t, stapsdt(t), append([]string{"debugger", "ask", "--container", id, "--"}, args...)...))
		tell(p, "await")
		return q
	}
	r := runByUser(t, "debugger", "look", "--container", id)
	require.JSONEq(t, fmt.Sprintf(`{"protocol": 1, "uid": %[1]d, "gid": %[1]d, "processes": [{"pid": %[2]d, "uid": %[1]d, "gid": %[1]d, "readable": true, "listens": true}]}`, user, p.PID()), r.stdout)

	for _, end := range []func(*tracetest.Process){(*tracetest.Process).Hangup, func(q *tracetest.Process) { q.Say("") }} {
		q := ask("count", "--output=json", "--", "subject:request__done")
		tell(p, "fire 7")
		end(q)
		require.NoError(t, q.Wait(testenv.Patience))
		require.Regexp(t, `"count":7}`, fmt.Sprint(q.Lines()))
		tell(p, "idle")
	}
	adjusted := ask("trace", "--", "subject:request__done")
	b := tracetest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", adjusted.PID())))(t)
	require.Equal(t, "1000\n", string(b))
	adjusted.Hangup()
	require.NoError(t, adjusted.Wait(testenv.Patience))
	tell(p, "idle")

	q := ask("record", "--size=1048576", "--", "subject:request__done")
	tell(p, "fire 9")
	q.Say("")
	var said struct {
		PID, FD int
		Size    int64
	}
	line := q.WaitMatch(regexp.MustCompile(`^\{"pid".*`), testenv.Patience)
	require.NoError(t, json.Unmarshal([]byte(line[0]), &said))
	sent := runByUser(t, "debugger", "send", strconv.Itoa(said.PID), strconv.Itoa(said.FD))
	require.Zero(t, sent.status)
	unpacked := tracetest.Must(gzip.NewReader(bytes.NewReader([]byte(sent.stdout))))(t)
	recording := tracetest.Must(io.ReadAll(unpacked))(t)
	require.EqualValues(t, said.Size, len(recording))
	file := filepath.Join(t.TempDir(), "fetched.rec")
	require.NoError(t, os.WriteFile(file, recording, 0o600))
	require.Contains(t, runCommand(t, "count", "--from", file, "subject:*", "-o", "json").stdout, `"count":9`)
	require.False(t, q.Ended(), "it holds the recording")
	q.Hangup()
	require.NoError(t, q.Wait(testenv.Patience))

	r = runByUser(t, "debugger", "ask", "--container", hex.EncodeToString(make([]byte, 32)), "--", "list")
	r.ends(t, 3, "no such process of the container 000000000000 is to be seen here")
}
