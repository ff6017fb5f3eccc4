//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// realPrograms are built from Go modules. site makes what the program works on in a directory, and returns its
// arguments and the addresses that are asked while it runs, as a server does.
var realPrograms = []struct {
	name, module, version, toolchain, pkg string
	site                                  func(t *testing.T, dir string) (args, urls []string)
}{
	{"gopls", "golang.org/x/tools/gopls", "v0.24.0", "go1.27.0", ".", func(t *testing.T, dir string) (args, urls []string) {
		write(t, dir, "go.mod", "module x\n\ngo 1.22\n")
		write(t, dir, "main.go", "package main\n\nimport \"fmt\"\n\nfunc main() { x := 1; fmt.Println(\"a\", y) }\n")
		return []string{"check", filepath.Join(dir, "main.go")}, nil
	}},
	{"Caddy", "github.com/caddyserver/caddy/v2", "v2.11.9", "local", "./cmd/caddy", func(t *testing.T, dir string) (args, urls []string) {
		at := address(t)
		return []string{"respond", "--listen", at, "--debug", "hello"}, []string{"http://" + at + "/x?y=z"}
	}},
	{"etcd", "go.etcd.io/etcd/server/v3", "v3.7.3", "local", ".", func(t *testing.T, dir string) (args, urls []string) {
		client, peer := "http://"+address(t), "http://"+address(t)
		return []string{"--data-dir", dir, "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
			"--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer}, []string{client + "/health", client + "/version"}
	}},
	{"Hugo", "github.com/gohugoio/hugo", "v0.169.0", "go1.27.0", ".", func(t *testing.T, dir string) (args, urls []string) {
		write(t, dir, "hugo.toml", "baseURL = 'http://localhost/'\ntitle = 'x'\n")
		write(t, dir, "content/a.md", "+++\ntitle = 'A'\n+++\n# Heading\n\n*text* [link](/b)\n")
		write(t, dir, "layouts/single.html", "<h1>{{ .Title }}</h1>{{ .Content }}\n")
		write(t, dir, "layouts/list.html", "{{ range .Pages }}{{ .Permalink }}{{ end }}\n")
		return []string{"--source", dir}, nil
	}},
	{"NATS", "github.com/nats-io/nats-server/v2", "v2.15.2", "local", ".", func(t *testing.T, dir string) (args, urls []string) {
		at, monitor := address(t), address(t)
		_, port, _ := strings.Cut(at, ":")
		_, monitorPort, _ := strings.Cut(monitor, ":")
		return []string{"--addr", "127.0.0.1", "--port", port, "--http_port", monitorPort, "--jetstream", "--store_dir", dir},
			[]string{"http://" + monitor + "/varz", "http://" + monitor + "/connz", "http://" + monitor + "/jsz"}
	}},
	{"Prometheus", "github.com/prometheus/prometheus", "v0.316.0", "local", "./cmd/prometheus", func(t *testing.T, dir string) (args, urls []string) {
		at := address(t)
		write(t, dir, "prometheus.yml", "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: self, static_configs: [{targets: [\""+at+"\"]}]}]\n")
		return []string{"--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", at},
			[]string{"http://" + at + "/api/v1/query?query=sum(up)", "http://" + at + "/metrics"}
	}},
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// address returns one that is free.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestRealPrograms compares what functions of real programs are called with. Their sources come from the module
// proxy, and building them takes many minutes: it runs if STAPSDT_TEST_PROGRAMS names some, or is "all".
func TestRealPrograms(t *testing.T) {
	chosen := os.Getenv("STAPSDT_TEST_PROGRAMS")
	if chosen == "" {
		t.Skip("opt-in: STAPSDT_TEST_PROGRAMS=all, or names as in gopls,etcd")
	}
	testenv.NeedsRoot(t)
	for _, p := range realPrograms {
		if chosen != "all" && !slices.Contains(strings.Split(chosen, ","), p.name) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			program := buildReal(t, p.module, p.version, p.toolchain, p.pkg)
			called := calledFunctions(t, program, p.site)
			t.Logf("%d functions are called", len(called))
			compareReal(t, program, evenly(called, 200), p.site)
		})
	}
}

// buildReal builds a program from the instrumented source of a module.
func buildReal(t *testing.T, module, version, toolchain, pkg string) (program string) {
	t.Helper()
	run := func(dir string, args ...string) []byte {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0", "GOTOOLCHAIN="+toolchain)
		var errors bytes.Buffer
		cmd.Stderr = &errors
		out, err := cmd.Output()
		if err != nil && strings.Contains(errors.String(), "This module version is not available") {
			t.Skipf("the module proxy does not have all of it: %s", &errors)
		}
		require.NoError(t, err, "go %v: %s", args, &errors)
		return out
	}
	var downloaded struct{ Dir string }
	require.NoError(t, json.Unmarshal(run(t.TempDir(), "mod", "download", "-json", module+"@"+version), &downloaded))
	dir := filepath.Join(t.TempDir(), "source")
	out, err := exec.Command("sh", "-c", `cp -r "$0" "$1" && chmod -R u+w "$1"`, downloaded.Dir, dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var mod struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	require.NoError(t, json.Unmarshal(run(dir, "mod", "edit", "-json"), &mod))
	for _, r := range mod.Replace {
		if strings.HasPrefix(r.New.Path, ".") { // a directory that the module does not contain
			run(dir, "mod", "edit", "-dropreplace="+r.Old.Path)
		}
	}
	t.Logf("%d functions are instrumented", instrument(t, dir, module))
	program = filepath.Join(t.TempDir(), "program")
	run(dir, "build", "-o", program, pkg)
	return program
}

// realRun is a run of a program that says what its functions are called with.
type realRun struct {
	*tracetest.Process
	dir  string
	urls []string
}

func startReal(t *testing.T, program string, site func(t *testing.T, dir string) (args, urls []string)) *realRun {
	t.Helper()
	args, urls := site(t, t.TempDir())
	r := &realRun{dir: t.TempDir(), urls: urls}
	cmd := exec.Command(program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "STAPSDT_TRUTH="+r.dir, "HOME="+t.TempDir(), "GOMAXPROCS=2", "GOFLAGS=-mod=mod", "GOWORK=off")
	r.Process = tracetest.Command(t, cmd)
	return r
}

// goOn lets the program go on until it ends, or for some seconds if it is a server.
func (r *realRun) goOn(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o644))
	if len(r.urls) == 0 {
		_ = r.Wait(10 * testenv.Patience) // gopls has found mistakes
		return
	}
	answers := 0
	for begin := time.Now(); time.Since(begin) < 30*time.Second && answers < 50; time.Sleep(20 * time.Millisecond) {
		for _, url := range r.urls {
			resp, err := http.Get(url)
			if err != nil {
				continue
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			answers++
		}
	}
	r.Signal(syscall.SIGKILL)
	_ = r.Wait(testenv.Patience)
	t.Logf("%d answers", answers)
}

// said returns what the program has said.
func (r *realRun) said(t *testing.T) (calls []call) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, fmt.Sprintf("said.%d", r.PID())))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "\n") { // and not cut by the end of the program
			calls = append(calls, decode(t, line))
		}
	}
	return calls
}

// calledFunctions returns the functions that a program calls, those that are called least first.
func calledFunctions(t *testing.T, program string, site func(t *testing.T, dir string) (args, urls []string)) (names []string) {
	t.Helper()
	r := startReal(t, program, site)
	r.goOn(t)
	times := map[string]int{}
	for _, c := range r.said(t) {
		if times[c.Probe]++; times[c.Probe] == 1 {
			names = append(names, c.Probe)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return times[a] - times[b] })
	return names
}

// evenly returns some of the names, at equal distances.
func evenly(names []string, most int) (some []string) {
	n := min(len(names), most)
	for i := range n {
		some = append(some, names[i*len(names)/n])
	}
	return some
}

// compareReal traces functions while the program says what they are called with, and compares all calls.
func compareReal(t *testing.T, program string, names []string, site func(t *testing.T, dir string) (args, urls []string)) {
	t.Helper()
	r := startReal(t, program, site)
	s := &subject{r.Process, t, program}
	args := []string{"trace", "-o", "json", "--strlen", "1000"}
	var specs []string
	for _, name := range names {
		specs = append(specs, "go:"+name)
	}
	begin := time.Now()
	command := s.command(specs, append(args, specs...)...)
	t.Logf("attached to %d functions within %v", len(specs), time.Since(begin).Round(time.Millisecond))
	r.goOn(t)
	lines := stop(t, command)
	require.NotContains(t, command.Dump(), "lost", "events were lost, and cannot be compared")
	traced := map[string][]call{}
	for _, line := range lines {
		c := decode(t, line)
		traced[c.Probe] = append(traced[c.Probe], c)
	}
	said := map[string][]call{}
	for _, c := range r.said(t) {
		if slices.Contains(names, c.Probe) {
			said[c.Probe] = append(said[c.Probe], c)
		}
	}
	calls, values, refused, wrong := 0, 0, 0, 0
	for _, name := range names {
		n, v, err := compareCalls(said[name], traced[name])
		calls, values = calls+n, values+v
		switch {
		case err == nil && n > 0 && v == 0:
			refused++
		case err != nil:
			wrong++
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Logf("%d calls of %d functions with %d values are the same; the arguments of %d functions are none or refused; %d functions differ",
		calls, len(said), values, refused, wrong)
	require.NotZero(t, values)
}

// compareCalls compares the calls of a function, in any order: its goroutines say them in another one. The last
// calls of each goroutine may be seen and not said, because the program has ended.
func compareCalls(said, traced []call) (calls, values int, err error) {
	const inFlight = 64
	if len(traced) < len(said) || len(traced) > len(said)+inFlight {
		return 0, 0, fmt.Errorf("%d calls are seen of %d", len(traced), len(said))
	}
	left := map[string]int{}
	var keys []string
	if len(said) > 0 {
		for name := range said[0].Args {
			if _, ok := traced[0].Args[name]; ok {
				keys = append(keys, name)
			}
		}
		slices.Sort(keys)
	}
	for _, c := range traced {
		left[c.text(keys)]++
	}
	for _, c := range said {
		text := c.text(keys)
		if left[text]--; left[text] < 0 {
			return 0, 0, fmt.Errorf("no such call is seen: %s; one that is seen: %s", text, traced[0].text(keys))
		}
	}
	if unread := len(said[:min(len(said), 1)]); unread > 0 && len(keys) < len(said[0].Args) && len(traced[0].Args) > 0 && len(traced[0].Args) < 48 {
		return 0, 0, fmt.Errorf("arguments are missing: %v of %v", traced[0].Args, said[0].Args)
	}
	return len(said), len(said) * len(keys), nil
}

// text returns some arguments of a call. Long texts are cut.
func (c *call) text(keys []string) string {
	var b strings.Builder
	for _, k := range keys {
		v := c.Args[k]
		if text, ok := v.(string); ok && len(text) > 200 {
			v = text[:200]
		}
		fmt.Fprintf(&b, "%s=%v ", k, v)
	}
	return b.String()
}
