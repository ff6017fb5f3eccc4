//go:build linux && (amd64 || arm64)

package command_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	root "github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// The probes of this process, which a server in it shows.
var (
	watched   = root.NewProvider("watched")
	wasDone   = root.NewProbe4[string, int32, time.Duration, bool](watched, "request__done", "path", "status", "elapsed", "cached")
	wasLarge  = root.NewProbe3[uint64, float64, uintptr](watched, "large")
	unwatched = root.NewProvider("unwatched")
	wasOther  = root.NewProbe1[int](unwatched, "request__done", "status")
)

// oneAtATime lets only one test at a time use those probes.
var oneAtATime sync.Mutex

func startPage(t *testing.T) *httptest.Server {
	oneAtATime.Lock()
	t.Cleanup(oneAtATime.Unlock)
	s := httptest.NewServer(debugprobe.Handler())
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	return s
}

// startRemoteTrace starts the command, and returns when the program observes these probes.
func startRemoteTrace(t *testing.T, probes []*root.Probe, args ...string) *tracer {
	t.Helper()
	waitUntilUnobserved(t)
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), append([]string{"trace"}, args...)...)), t}
	require.Eventually(t, func() bool {
		for _, p := range probes {
			if !p.Enabled() {
				return tr.Ended()
			}
		}
		return true
	}, testenv.Patience, 5*time.Millisecond, "it does not watch")
	return tr
}

// waitUntilUnobserved waits until the program has noticed that nothing observes it any longer.
func waitUntilUnobserved(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return !wasDone.Enabled() && !wasLarge.Enabled() && !wasOther.Enabled() }, testenv.Patience, 5*time.Millisecond)
}

func fireDone(n int) {
	for i := range n {
		wasDone.Fire("/item/"+strconv.Itoa(i), int32(i-1), time.Duration(i)*time.Millisecond, i%2 == 0)
	}
}

// TestRemote: the events of a program in the form of other traces.
func TestRemote(t *testing.T) {
	t.Parallel()
	s := startPage(t)
	all := []*root.Probe{&wasDone.Probe, &wasLarge.Probe, &wasOther.Probe}
	tr := startRemoteTrace(t, all, "-n", "4", "--strlen", "8", s.URL+"/debug/probes", "*watched:*")
	fireDone(2)
	wasLarge.Fire(math.MaxUint64, math.Inf(-1), 0xc000)
	wasDone.Fire("a \"text\"\nthat is longer", -1, time.Second, false)
	require.NoError(t, tr.Wait(testenv.Patience))
	require.Len(t, tr.Lines(), 5)
	require.Regexp(t, `^TIME +PID COMM +PROBE +ARGUMENTS$`, tr.Lines()[0])
	require.Regexp(t, `^\d\d:\d\d:\d\d\.\d{6} +`+strconv.Itoa(os.Getpid())+` command\.test +watched:request__done +path="/item/0" status=-1 elapsed=0s cached=true$`, tr.Lines()[1])
	require.Contains(t, tr.Lines()[2], ` path="/item/1" status=0 elapsed=1ms cached=false`)
	require.Contains(t, tr.Lines()[3], ` arg0=18446744073709551615 arg1=-Inf arg2=49152`)
	require.Contains(t, tr.Lines()[4], ` path="a \"text\""… status=-1 elapsed=1s cached=false`)

	before := time.Now()
	tr = startRemoteTrace(t, all[:1], "-o", "json", s.URL+"/debug/probes/", "watched:*")
	fireDone(2)
	wasDone.Fire(strings.Repeat("x", 2000), 0, 0, false)
	wasLarge.Fire(1<<53+1, 0.5, 0)
	wasOther.Fire(1)
	events := tr.stop()
	require.Len(t, events, 4)
	require.WithinRange(t, events[0].Time, before, time.Now())
	require.Equal(t, "command.test", events[0].Comm)
	require.Equal(t, os.Getpid(), events[0].PID)
	require.Equal(t, map[string]any{"path": "/item/1", "status": 0., "elapsed": 1e6, "cached": false}, events[1].Args)
	require.Equal(t, strings.Repeat("x", 256), events[2].Args["path"])
	require.Equal(t, []string{"path"}, events[2].Cut)
	require.Contains(t, tr.Dump(), `"arg0":9007199254740993,"arg1":0.5,"arg2":0`)
}

// TestRemoteList: the probes of a program that lists them itself, as of a file.
func TestRemoteList(t *testing.T) {
	t.Parallel()
	s := startPage(t)
	require.NoError(t, watched.Load())
	t.Cleanup(func() { require.NoError(t, watched.Unload()) })
	r := runCommand(t, "list", s.URL)
	require.Zero(t, r.status, r.stderr)
	process := fmt.Sprintf(" (process %d)\n", os.Getpid())
	require.Contains(t, r.stdout, watched.Path()+process+
		"  watched:large(arg0 uint64, arg1 float64, arg2 uint64)\n"+
		"  watched:request__done(path string, status int32, elapsed time.Duration, cached bool)\n")
	require.Contains(t, r.stdout, "not loaded"+process+"  unwatched:request__done(status int64)\n")

	r = runCommand(t, "list", "-o", "json", s.URL+"/debug/probes/")
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stdout, fmt.Sprintf(`{"file":%q,"provider":"watched","probe":"request__done",`+
		`"args":[{"name":"path","type":"string"},{"name":"status","type":"int32"},{"name":"elapsed","type":"time.Duration"},`+
		`{"name":"cached","type":"bool"}],"sites":[],"semaphore":false,"pids":[%d],"traced":false}`, watched.Path(), os.Getpid()))
}

// TestRemoteFilter: the program evaluates the filter, and an error points at the place.
func TestRemoteFilter(t *testing.T) {
	t.Parallel()
	s := startPage(t)
	one := []*root.Probe{&wasDone.Probe}
	tr := startRemoteTrace(t, one, "-o", "json", s.URL, "watched:request__done", "-w", `10/status > 4 && strings.HasPrefix(path, "/item/")`)
	fireDone(5)
	require.Equal(t, []any{1., 2.}, args(tr.stop(), "status"))
	require.Contains(t, tr.Dump(), "stapsdt: 1 events are not included, because an expression could not be evaluated: a division by 0")
	r := runCommand(t, "trace", s.URL, "watched:request__done", "-w", `status >= 500 && pth == "/"`)
	r.ends(t, 2, "stapsdt: watched:request__done: undefined: pth", "\n\tstatus >= 500 && pth == \"/\"\n\t                 ^\n")
}

// TestRemoteEnds: each way to end is a clean one, and the program is not observed after it.
func TestRemoteEnds(t *testing.T) {
	t.Parallel()
	s := startPage(t)
	one := []*root.Probe{&wasDone.Probe}
	options := []string{"-o", "json", s.URL, "watched:request__done"}
	tr := startRemoteTrace(t, one, append(options, "-n", "2")...)
	fireDone(5)
	require.Len(t, tr.waitForEnd(), 2)
	waitUntilUnobserved(t)
	require.Zero(t, runCommand(t, append(append([]string{"trace"}, options...), "-d", "300ms")...).status)
	waitUntilUnobserved(t)
	ended := func(tr *tracer, status int, why string) {
		t.Helper()
		require.Error(t, tr.Wait(testenv.Patience))
		require.Contains(t, tr.Dump(), "exit status "+strconv.Itoa(status))
		require.Contains(t, tr.Dump(), why)
	}
	tr = startRemoteTrace(t, one, options...)
	fireDone(3)
	tr.WaitLine(`"/item/2"`, testenv.Patience)
	s.CloseClientConnections()
	ended(tr, 5, "err| stapsdt: the program at "+s.URL+"/debug/probes/ has gone away: the connection has ended")
	require.Len(t, tr.Lines(), 3)
	tr = startRemoteTrace(t, one, options...)
	go s.Config.Shutdown(context.Background())
	ended(tr, 5, "has gone away: the connection has ended: it is shutting down")
	runCommand(t, append([]string{"trace"}, options...)...).ends(t, 1, "connection refused")
}

// TestRemoteLoses: every event is shown, or reported as lost.
func TestRemoteLoses(t *testing.T) {
	t.Parallel()
	s := startPage(t)
	tr := startRemoteTrace(t, []*root.Probe{&wasLarge.Probe}, "-o", "json", s.URL, "watched:large")
	const fired = 20_000
	for i := range fired {
		wasLarge.Fire(uint64(i), 0, 0)
	}
	events := tr.stop()
	lost := tr.lost()
	require.Contains(t, tr.Dump(), "events were lost, because the program sends at most 1000 per second")
	require.Contains(t, tr.Dump(), fmt.Sprintf(`{"lost":%d}`, lost))
	require.Equal(t, fired, len(events)-1+lost)
}

// TestRemoteServers: how a program is reached, and what is not one.
func TestRemoteServers(t *testing.T) {
	one := []*root.Probe{&wasDone.Probe}
	shows := func(address string) {
		t.Helper()
		tr := startRemoteTrace(t, one, "-o", "json", "-n", "1", address, "watched:request__done")
		fireDone(1)
		require.Len(t, tr.waitForEnd(), 1)
	}
	socket := filepath.Join(t.TempDir(), "socket")
	listener := tracetest.Must(net.Listen("unix", socket))(t)
	mux := http.NewServeMux()
	mux.Handle("/debug/probes/", debugprobe.Handler())
	mux.HandleFunc("/private/", func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		debugprobe.Handler().ServeHTTP(w, r)
	})
	mux.HandleFunc("/page/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	local := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	local.Start()
	defer local.Close()
	shows("http://unix:" + socket)
	shows("http://unix:" + socket + ":/debug/probes")

	tls := httptest.NewTLSServer(mux)
	defer tls.Close()
	runCommand(t, "trace", tls.URL).ends(t, 1, "certificate")
	authority := filepath.Join(t.TempDir(), "authority.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", authority)
	shows(tls.URL)

	host := strings.TrimPrefix(tls.URL, "https://")
	shows("https://me:secret@" + host + "/private")
	for _, c := range []struct {
		address, stderr string
		status          int
	}{
		{"https://me:mistake@" + host + "/private", "stapsdt: https://me:xxxxx@" + host + "/private/: 401 Unauthorized; give USER:PASSWORD@ before the host\n", 4},
		{tls.URL + "/nothing", "stapsdt: there is no debugprobe at " + tls.URL + "/nothing/: 404 Not Found\n", 3},
		{tls.URL + "/page", "stapsdt: there is no debugprobe at " + tls.URL + "/page/: another server answered\n", 3},
		{tls.URL + "/debug/probes/?probe=x", "has a query: use SPEC, -w, -n and -d instead\n", 2},
		{"http://", `stapsdt: "http:" has no host`, 2},
	} {
		r := runCommand(t, "trace", c.address)
		require.Equal(t, c.status, r.status)
		require.Contains(t, r.stderr, c.stderr)
		require.NotContains(t, r.stderr, "mistake")
	}
}
