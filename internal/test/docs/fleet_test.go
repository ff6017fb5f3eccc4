//go:build linux && (amd64 || arm64)

package docs_test

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// fleet is the guide, with what is running of it.
type fleet struct {
	*guide
	running *tracetest.Process // the exporter
}

// config writes a block of the guide into a file.
func (f *fleet) config(t *testing.T, name, text string) {
	t.Helper()
	f.write(t, name, f.replace.Replace(f.code(t, text)))
}

// export starts the exporter as a command of the guide does, in the place of the one before.
func (f *fleet) export(t *testing.T, command string) {
	t.Helper()
	f.stop(t)
	f.running = startGroup(t, f.dir, "exec 2>&1; exec "+command+f.replace.Replace(" --listen localhost:9964"))
	f.running.WaitLine("metrics are at http", testenv.Patience)
}

func (f *fleet) stop(t *testing.T) {
	t.Helper()
	if f.running != nil {
		f.running.Signal(os.Interrupt)
		require.NoError(t, f.running.Wait(testenv.Patience), f.running.Dump())
	}
}

// prints runs a command until it has printed the lines of the guide.
func (f *fleet) prints(t *testing.T, c console) {
	t.Helper()
	require.Eventually(t, func() bool {
		out := f.run(t, "exec 2>&1; "+f.replace.Replace(c.command)+" || true")
		return c.missing(strings.Split(out, "\n"), sample) == ""
	}, testenv.Patience, 100*time.Millisecond, "%s\nhas not printed %q", c.command, c.output)
}

var times = regexp.MustCompile(`@\[[0-9.]+\]`)

// sample is a line of output without what differs from run to run.
func sample(line string) string {
	return strings.TrimSpace(times.ReplaceAllString(line, "@[]"))
}

// freePort returns a port at which nothing listens.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// TestGuideFleet: from nothing to numbers in Prometheus, as a new user does it.
func TestGuideFleet(t *testing.T) {
	testenv.Long(t, "it builds a program and starts Prometheus")
	testenv.NeedsRoot(t)
	for tool, pkg := range map[string]string{"prometheus": "prometheus", "promtool": "prometheus", "curl": "curl", "openssl": "openssl"} {
		testenv.NeedsTool(t, tool, pkg)
	}
	buildCommand(t)
	f := &fleet{guide: readGuide(t, "fleet.md")}
	f.replace = strings.NewReplacer("localhost:8080", "localhost:"+freePort(t), "localhost:9964", "localhost:"+freePort(t), "localhost:9090", "localhost:"+freePort(t))
	bin, start := f.shop(t)
	(&document{dir: bin}).start(t, f.replace.Replace(start)).WaitLine(" serves http://", testenv.Patience)

	f.config(t, "rules.yaml", "shop_queries_in_flight")
	f.export(t, f.find(t, "stapsdt export -c rules.yaml").consoles()[0].command)
	f.requests(t)
	f.exemplar(t)
	f.config(t, "prometheus.yml", "job_name: stapsdt")
	command := f.find(t, "$ prometheus --config.file").consoles()[0].command
	startGroup(t, f.dir, "exec "+command+f.replace.Replace(" --web.listen-address=localhost:9090"))
	f.prints(t, f.find(t, "promtool query instant").consoles()[0])

	text := readFile(t, f.dir+"/rules.yaml")
	f.write(t, "rules.yaml", strings.Replace(text, "by: [route, status]", "by: [route]", 1))
	f.running.WaitLine("stapsdt: read rules.yaml: 2 metrics, 0 span rules", testenv.Patience)
	f.write(t, "rules.yaml", text)

	f.config(t, "wrong.yaml", "hist: status") // whose errors the guide shows
	f.prints(t, f.find(t, "stapsdt export -c wrong.yaml").consoles()[0])
	f.config(t, "spans.yaml", "spans:")
	f.run(t, "stapsdt export -c spans.yaml --check")
	f.secured(t)
	f.stop(t)
}

// requests sends what the guide sends, and reads what the exporter answers.
func (f *fleet) requests(t *testing.T) {
	t.Helper()
	commands := f.find(t, "curl -s -X POST").consoles()
	last := len(commands) - 1
	for _, c := range commands[:last] {
		f.run(t, f.replace.Replace(c.command))
	}
	f.prints(t, commands[last])
}

// exemplar reads one. Its numbers differ from run to run.
func (f *fleet) exemplar(t *testing.T) {
	t.Helper()
	exemplars := f.find(t, "grep -m1 span_id").consoles()[0]
	pattern := regexp.MustCompile(`^shop_request_seconds_bucket\{container="",executable="shop",namespace="",pod="",route=".*",status="\d+",le="[0-9.]+"\} \d+ # \{span_id="[0-9a-f]{16}"\} [0-9.e-]+ [0-9.e+]+\n$`)
	require.Regexp(t, pattern, strings.Join(exemplars.output, "\n")+"\n")
	require.Regexp(t, pattern, f.run(t, f.replace.Replace(exemplars.command)))
}

// secured reads the metrics with a certificate and a password.
func (f *fleet) secured(t *testing.T) {
	t.Helper()
	f.config(t, "web.yaml", "tls_server_config")
	c := f.find(t, "openssl req").consoles()
	f.run(t, c[0].command+" 2>&1")
	f.export(t, c[1].command)
	f.prints(t, c[2])
	without := regexp.MustCompile(` -u \S+ (\S+).*`).ReplaceAllString(f.replace.Replace(c[2].command), ` -o /dev/null -w '%{http_code}' $1`)
	require.Equal(t, "401", strings.TrimSpace(f.run(t, without)))
	_ = syscall.Kill(-f.running.PID(), syscall.SIGHUP)
	f.running.WaitLine("stapsdt: read rules.yaml", testenv.Patience)
}
