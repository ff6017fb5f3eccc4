//go:build linux

package instrument

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// wrapHandlers is what net/http's tests wrap the handlers of their servers with. MODE says
// whether, and whether the probes are observed.
const wrapHandlers = `package http_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
)

var (
	app          = stapsdt.NewProvider("nethttp")
	requests     = httpprobe.NewServer(app)
	starts, ends atomic.Int64
)

func init() {
	if os.Getenv("MODE") == "traced" {
		app.Observe(func(e *stapsdt.Event) {
			if strings.HasSuffix(e.Probe().Name(), "__start") {
				starts.Add(1)
			} else if strings.HasSuffix(e.Probe().Name(), "__end") {
				ends.Add(1)
			}
		})
	}
}

func wrapHandler(h http.Handler) http.Handler {
	if h == nil || os.Getenv("MODE") == "plain" {
		return h
	}
	return requests.Handler(h)
}

// ExampleReport runs after the tests. Some handlers return later than these.
func ExampleReport() {
	for i := 0; i < 600 && starts.Load() != ends.Load(); i++ {
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "observed", starts.Load(), ends.Load())
	// Output:
}
`

// ofCaller are net/http's tests of messages that name the function that called it. While a
// request is traced, this is the wrapper of the ResponseWriter.
var ofCaller = regexp.MustCompile(`^TestWriteHeaderNoCodeCheck(/h1|_h1hijack)?$`)

// TestNetHTTP: what passes of net/http's own tests, with servers of HTTP/1 and HTTP/2, also
// passes if their handlers are wrapped, idle and observed. The tests are those of GOROOT, of
// which they run in a copy: a package of the standard library can import only what is vendored
// there.
func TestNetHTTP(t *testing.T) {
	testenv.LongOnce(t, "it builds net/http's tests and runs them three times")
	root := t.TempDir()
	run := func(dir, name string, args ...string) []byte {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "%s %s: %s%s", name, args, out, stderr.Bytes())
		return out
	}
	goroot := strings.TrimSpace(string(run(".", "go", "env", "GOROOT")))
	run(root, "cp", "-a", goroot+"/src", "src")
	run(root, "chmod", "-R", "u+w", "src")
	for _, name := range []string{"bin", "pkg", "lib", "VERSION", "go.env"} {
		require.NoError(t, os.Symlink(filepath.Join(goroot, name), filepath.Join(root, name)))
	}
	edit := func(path string, change func(string) string) {
		t.Helper()
		path = filepath.Join(root, "src", path)
		old, err := os.ReadFile(path)
		require.NoError(t, err)
		changed := change(string(old))
		require.NotEqual(t, string(old), changed, path)
		require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
	}
	vendored := "# github.com/go-stapsdt/stapsdt v0.1.0\n## explicit; go 1.25.0\n"
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Dir}}{{end}}", "github.com/go-stapsdt/stapsdt/instrument/httpprobe")
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	packages, err := list.Output()
	require.NoError(t, err)
	unix := false
	for line := range strings.Lines(string(packages)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		run(root, "mkdir", "-p", "src/vendor/"+path)
		run(root, "sh", "-c", fmt.Sprintf("cp %s/*.go src/vendor/%s; cp %[1]s/*.[sh] src/vendor/%[2]s 2>/dev/null; rm -f src/vendor/%[2]s/*_test.go", dir, path))
		if path == "golang.org/x/sys/unix" {
			unix = true
			continue
		}
		vendored += path + "\n"
	}
	require.True(t, unix, "%s", packages)
	edit("vendor/modules.txt", func(text string) string {
		return strings.Replace(text, "golang.org/x/sys/cpu\n", "golang.org/x/sys/cpu\ngolang.org/x/sys/unix\n", 1) + vendored
	})
	edit("go.mod", func(text string) string {
		return strings.Replace(text, "require (", "require (\n\tgithub.com/go-stapsdt/stapsdt v0.1.0", 1)
	})
	edit("net/http/clientserver_test.go", func(text string) string {
		return strings.Replace(text, "\tcst := &clientServerTest{\n", "\th = wrapHandler(h)\n\tcst := &clientServerTest{\n", 1)
	})
	dir := root + "/src/net/http"
	require.NoError(t, os.WriteFile(dir+"/probes_test.go", []byte(wrapHandlers), 0o600))
	env := append(os.Environ(), "GOROOT="+root, "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	build := exec.Command("go", "test", "-vet=off", "-c", "-o", root+"/http.test", ".")
	build.Dir, build.Env = dir, env
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	// The tests of whole programs, of what the go command builds, have no handlers.
	test := func(mode, pattern string) (passed []string, out []byte) {
		cmd := exec.Command(root+"/http.test", "-test.short", "-test.v", "-test.run="+pattern, "-test.skip=^TestOmitHTTP2Vet$", "-test.timeout=5m")
		cmd.Dir, cmd.Env = dir, append(slices.Clone(env), "MODE="+mode)
		out, _ = cmd.CombinedOutput()
		for _, m := range verdict.FindAllSubmatch(out, -1) {
			if string(m[1]) == "PASS" {
				passed = append(passed, string(m[2]))
			}
		}
		return passed, out
	}
	var all sync.WaitGroup
	modes := []string{"plain", "idle", "traced"}
	var passed [3][]string
	var said [3][]byte
	for i, mode := range modes {
		all.Go(func() { passed[i], said[i] = test(mode, "^Test|^ExampleReport$") })
	}
	all.Wait()
	require.Greater(t, len(passed[0]), 1000, "%s", said[0])
	t.Logf("%d pass without the probes", len(passed[0]))
	for i, mode := range modes[1:] {
		for _, name := range passed[0] {
			if slices.Contains(passed[i+1], name) || mode == "traced" && ofCaller.MatchString(name) {
				continue
			}
			// It may be one that depends on time.
			top, _, _ := strings.Cut(name, "/")
			again, out := test(mode, "^"+top+"$")
			require.Contains(t, again, name, "%s: %s", mode, out)
		}
	}
	m := regexp.MustCompile(`(?m)^observed (\d+) (\d+)$`).FindSubmatch(said[2])
	require.NotNil(t, m, "%s", said[2])
	t.Logf("%s starts, %s ends", m[1], m[2])
	require.Equal(t, m[1], m[2])
	require.Greater(t, len(m[1]), 3, "thousands of requests")
}
