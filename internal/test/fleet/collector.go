//go:build linux

package fleet

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector is an OpenTelemetry Collector, which receives OTLP over HTTP, and appends what it receives to files.
type Collector struct {
	server
	dir string
}

// collectorConfig receives at %[1]s, and writes into the directory %[2]s.
const collectorConfig = `
receivers:
  otlp: {protocols: {http: {endpoint: "%[1]s"}}}
exporters:
  file/metrics: {path: "%[2]s/metrics", format: proto, append: true, flush_interval: 100ms}
  file/traces: {path: "%[2]s/traces", format: proto, append: true, flush_interval: 100ms}
service:
  telemetry:
    metrics: {level: none}
    logs: {level: warn}
  pipelines:
    metrics: {receivers: [otlp], exporters: [file/metrics]}
    traces: {receivers: [otlp], exporters: [file/traces]}
`

// StartCollector builds a collector, which takes minutes for the first time, and starts it. It
// runs until the test ends.
func StartCollector(t testing.TB) *Collector {
	t.Helper()
	dir := t.TempDir()
	addr := ownAddr()
	program := filepath.Join(dir, "collector")
	run := func(args ...string) error {
		cmd := exec.Command("go", args...)
		cmd.Dir = "collector"
		cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		return err
	}
	testenv.Downloads(t, "the modules of an OpenTelemetry Collector", run("mod", "download"))
	require.NoError(t, run("build", "-o", program, "."))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), fmt.Appendf(nil, collectorConfig, addr, dir), 0o600))
	c := &Collector{server{URL: "http://" + addr, t: t, command: []string{program, "--config", "file:" + filepath.Join(dir, "config.yaml")}}, dir}
	c.Start()
	return c
}

// Start starts the collector again.
func (c *Collector) Start() {
	c.t.Helper()
	c.server.Start("", http.StatusNotFound) // there is nothing but what it receives
}

// Metrics returns all metrics that have come, the oldest first.
func (c *Collector) Metrics() (all []*metrics.ResourceMetrics) {
	c.t.Helper()
	for _, message := range c.messages("metrics") {
		var m metrics.MetricsData
		require.NoError(c.t, proto.Unmarshal(message, &m))
		all = append(all, m.ResourceMetrics...)
	}
	return all
}

// Spans returns all spans that have come, the oldest first.
func (c *Collector) Spans() (all []*trace.ResourceSpans) {
	c.t.Helper()
	for _, message := range c.messages("traces") {
		var d trace.TracesData
		require.NoError(c.t, proto.Unmarshal(message, &d))
		all = append(all, d.ResourceSpans...)
	}
	return all
}

// messages returns the messages of a file that are complete. Before each are four bytes with its
// length.
func (c *Collector) messages(name string) (all [][]byte) {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, name))
	require.NoError(c.t, err)
	for len(data) >= 4 {
		length := int(binary.BigEndian.Uint32(data))
		if len(data) < 4+length {
			break
		}
		all = append(all, data[4:4+length])
		data = data[4+length:]
	}
	return all
}
