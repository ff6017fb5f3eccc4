//go:build linux

package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// server is a program that answers at a URL, and can be stopped and started again with the data that it had.
type server struct {
	URL string

	t       testing.TB
	command []string
	process *tracetest.Process
}

// Start starts the server, and waits until it answers at a path with a status.
func (s *server) Start(path string, status int) {
	s.t.Helper()
	s.process = tracetest.Command(s.t, exec.Command(s.command[0], s.command[1:]...))
	for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(20 * time.Millisecond) {
		if answer, err := http.Get(s.URL + path); err == nil {
			answer.Body.Close()
			if answer.StatusCode == status {
				return
			}
		}
		if s.process.Ended() || time.Now().After(deadline) {
			s.t.Fatalf("%s does not answer: %s", s.URL, s.process.Dump())
		}
	}
}

// Stop stops the server.
func (s *server) Stop() {
	s.t.Helper()
	s.process.Signal(syscall.SIGTERM)
	require.NoError(s.t, s.process.Wait(testenv.Patience))
}

// Prometheus is a server that scrapes a target twice a second.
type Prometheus struct{ server }

// config is Prometheus's, for a target HOST:PORT.
const config = `
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs: [{job_name: stapsdt, static_configs: [{targets: ["%s"]}]}]
`

// StartPrometheus starts a server, which runs until the test ends. The target is HOST:PORT.
func StartPrometheus(t testing.TB, target string) *Prometheus {
	t.Helper()
	program := testenv.NeedsTool(t, "prometheus", "prometheus")
	dir := t.TempDir()
	path := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, config, target), 0o600))
	addr := ownAddr()
	p := &Prometheus{server{URL: "http://" + addr, t: t, command: []string{
		program, "--config.file=" + path, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + addr,
		"--enable-feature=exemplar-storage,native-histograms", "--log.level=warn",
	}}}
	p.Start()
	return p
}

// Start starts the server again.
func (p *Prometheus) Start() {
	p.t.Helper()
	p.server.Start("/-/ready", http.StatusOK)
}

// ports is the number of addresses that ownAddr has returned.
var ports atomic.Int32

// ownAddr returns an address of this machine that no other process uses, because its host is made of this one's PID.
func ownAddr() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d:%d", 1+pid>>16, pid>>8&0xff, pid&0xff, 9000+ports.Add(1))
}

// Ask calls the API, and decodes the data of its answer.
func (p *Prometheus) Ask(path string, query url.Values, data any) {
	p.t.Helper()
	answer, err := http.Get(p.URL + "/api/v1/" + path + "?" + query.Encode())
	require.NoError(p.t, err)
	defer answer.Body.Close()
	said := struct {
		Error string
		Data  any
	}{Data: data}
	require.NoError(p.t, json.NewDecoder(answer.Body).Decode(&said))
	require.Empty(p.t, said.Error)
}

// Query returns the values that an expression in PromQL has now, by the labels, without the names
// of the metric and the job: `{instance="a:1",route="/"}`.
func (p *Prometheus) Query(expr string) map[string]float64 {
	p.t.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  []any
		}
	}
	p.Ask("query", url.Values{"query": {expr}}, &data)
	values := map[string]float64{}
	for _, r := range data.Result {
		require.Len(p.t, r.Value, 2, "%s is no vector of numbers", expr)
		value, err := strconv.ParseFloat(r.Value[1].(string), 64)
		require.NoError(p.t, err)
		values[labels(r.Metric)] = value
	}
	return values
}

// labels writes labels in one way.
func labels(metric map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(metric)) {
		if name != "__name__" && name != "job" {
			all = append(all, fmt.Sprintf("%s=%q", name, metric[name]))
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

// Gives waits until an expression has these values.
func (p *Prometheus) Gives(want map[string]float64, expr string) {
	p.t.Helper()
	var got map[string]float64
	for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(50 * time.Millisecond) {
		if got = p.Query(expr); maps.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			require.Equal(p.t, want, got, expr)
		}
	}
}
