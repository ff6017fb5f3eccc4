//go:build linux

package instrument

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// probesOfTests is what other modules' tests make their servers with, and call handlers. MODE
// says whether with the probes, and whether these are observed.
const probesOfTests = `package probes

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
)

var (
	app    = stapsdt.NewProvider("tests")
	server = httpprobe.NewServer(app)
	client = httpprobe.NewClient(app)
	starts, ends atomic.Int64
)

func init() {
	if os.Getenv("MODE") != "plain" {
		http.DefaultClient.Transport = client.Transport(nil)
	}
	if os.Getenv("MODE") != "traced" {
		return
	}
	app.Observe(func(e *stapsdt.Event) {
		switch name := e.Probe().Name(); {
		case strings.HasPrefix(name, "fetch"):
		case strings.HasSuffix(name, "__start"):
			starts.Add(1)
		case strings.HasSuffix(name, "__end"):
			ends.Add(1)
		}
	})
}

func Handler(h http.Handler) http.Handler {
	if h == nil || os.Getenv("MODE") == "plain" {
		return h
	}
	return server.Handler(h)
}

func NewServer(h http.Handler) *httptest.Server          { return httptest.NewServer(Handler(h)) }
func NewTLSServer(h http.Handler) *httptest.Server       { return httptest.NewTLSServer(Handler(h)) }
func NewUnstartedServer(h http.Handler) *httptest.Server { return httptest.NewUnstartedServer(Handler(h)) }

// Report prints what was observed. Some handlers return later than the tests.
func Report() {
	for i := 0; i < 100 && starts.Load() != ends.Load(); i++ {
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "requests", starts.Load(), ends.Load())
}
`

// foreign is a module whose tests have handlers.
type foreign struct {
	module, version string
	packages        []string // directories of them
	tests           int      // of which more pass
	requests        int      // that they serve, at least
}

var foreigners = []foreign{
	{module: "github.com/go-chi/chi/v5", version: "v5.2.3", packages: []string{".", "middleware"}, tests: 40, requests: 100},
	{module: "github.com/gorilla/websocket", version: "v1.5.3", packages: []string{"."}, tests: 40, requests: 40},
	{module: "github.com/felixge/httpsnoop", version: "v1.0.4", packages: []string{"."}, tests: 5, requests: 10},
}

// TestForeignHandlers: what passes of the tests of a router, of a library that takes over
// connections and of one that wraps ResponseWriters also passes if their handlers and those
// within them are wrapped, idle and observed.
func TestForeignHandlers(t *testing.T) {
	testenv.Long(t, "it builds other modules' tests and runs them three times")
	for _, f := range foreigners {
		dir := f.copy(t)
		for _, name := range f.packages {
			t.Run(f.module+"/"+name, func(t *testing.T) { f.compare(t, filepath.Join(dir, name)) })
		}
	}
}

// download downloads the module, for at most a minute if the proxy fails, and returns its description.
func (f *foreign) download(t *testing.T) []byte {
	t.Helper()
	for pause := 5 * time.Second; ; pause *= 3 {
		download := exec.Command("go", "mod", "download", "-json", f.module+"@"+f.version)
		download.Env = append(os.Environ(), "GOWORK=off")
		description, err := download.Output()
		if err == nil {
			return description
		}
		if pause > 45*time.Second {
			testenv.Needs(t, f.module, fmt.Errorf("%w: %s", err, description))
		}
		time.Sleep(pause)
	}
}

// copy makes a copy of the module whose tests use the probes.
func (f *foreign) copy(t *testing.T) string {
	t.Helper()
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(f.download(t), &module))
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(module.Dir)))
	require.NoError(t, exec.Command("chmod", "-R", "u+w", dir).Run())
	require.NoError(t, os.MkdirAll(dir+"/internal/probes", 0o700))
	require.NoError(t, os.WriteFile(dir+"/internal/probes/probes.go", []byte(probesOfTests), 0o600))
	for _, name := range f.packages {
		f.wrap(t, filepath.Join(dir, name))
	}
	repository, err := filepath.Abs("../../..")
	require.NoError(t, err)
	f.run(t, dir, "cp", repository+"/internal/test/go.sum", "go.sum")
	f.run(t, dir, "go", "mod", "edit", "-go", "1.25.0", "-require", "github.com/go-stapsdt/stapsdt@v0.1.0", "-replace", "github.com/go-stapsdt/stapsdt="+repository)
	return dir
}

var (
	newServer = regexp.MustCompile(`\bhttptest\.(NewServer|NewTLSServer|NewUnstartedServer)\(`)
	serving   = regexp.MustCompile(`\b((?:\w+\.)*\w+)\.ServeHTTP\(`)
	naming    = regexp.MustCompile(`(?m)^package (\w+)$`)
)

// wrap makes the tests of a package wrap handlers.
func (f *foreign) wrap(t *testing.T, dir string) {
	t.Helper()
	tests, err := filepath.Glob(dir + "/*_test.go")
	require.NoError(t, err)
	changed, name := 0, ""
	for _, file := range tests {
		old, err := os.ReadFile(file)
		require.NoError(t, err)
		text := newServer.ReplaceAllString(string(old), "probes.$1(")
		text = serving.ReplaceAllString(text, "probes.Handler($1).ServeHTTP(")
		name = strings.TrimSuffix(naming.FindStringSubmatch(text)[1], "_test")
		if text == string(old) {
			continue
		}
		changed++
		text = naming.ReplaceAllString(text, "package $1\nimport \""+f.module+"/internal/probes\"")
		if strings.Contains(text, `"net/http/httptest"`) {
			text += "\nvar _ httptest.Server // if nothing else uses the package\n"
		}
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	require.Positive(t, changed)
	report := "package " + name + "_test\n\nimport \"" + f.module + "/internal/probes\"\n\nfunc ExampleReport() {\n\tprobes.Report()\n\t// Output:\n}\n"
	require.NoError(t, os.WriteFile(dir+"/zz_report_test.go", []byte(report), 0o600))
}

// compare runs the tests of a package in all modes.
func (f *foreign) compare(t *testing.T, dir string) {
	f.run(t, dir, "go", "test", "-vet=off", "-c", "-o", "pkg.test", ".")
	tests := suite{pattern: "^Test|^ExampleReport$", command: func(mode, pattern string) *exec.Cmd {
		cmd := exec.Command("./pkg.test", "-test.run="+pattern, "-test.v", "-test.timeout=5m")
		cmd.Dir, cmd.Env = dir, append(slices.Clone(os.Environ()), "MODE="+mode)
		return cmd
	}}
	starts, ends := observed(t, tests.compare(t, f.tests), "requests")
	require.Equal(t, starts, ends)
	require.GreaterOrEqual(t, starts, f.requests)
}

// run runs a command for the copy.
func (f *foreign) run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
