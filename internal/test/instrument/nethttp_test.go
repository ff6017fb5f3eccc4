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
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// wrappers is what net/http's tests wrap the handlers of their servers and the transports of
// their clients with.
const wrappers = `package http_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
)

type counts struct{ starts, ends atomic.Int64 }

var (
	app             = stapsdt.NewProvider("nethttp")
	server          = httpprobe.NewServer(app)
	client          = httpprobe.NewClient(app)
	requests, fetches counts
	wrapped         sync.Map // the transports, by their wrappers
)

func init() {
	if os.Getenv("MODE") != "traced" {
		return
	}
	app.Observe(func(e *stapsdt.Event) {
		c := &requests
		if strings.HasPrefix(e.Probe().Name(), "fetch__") {
			c = &fetches
		}
		if strings.HasSuffix(e.Probe().Name(), "__start") {
			c.starts.Add(1)
		} else if strings.HasSuffix(e.Probe().Name(), "__end") {
			c.ends.Add(1)
		}
	})
}

func wrapHandler(h http.Handler) http.Handler {
	if h == nil || os.Getenv("MODE") == "plain" {
		return h
	}
	return server.Handler(h)
}

func wrapTransport(t *http.Transport) http.RoundTripper {
	if os.Getenv("MODE") == "plain" {
		return t
	}
	w := client.Transport(t)
	wrapped.Store(w, t)
	return w
}

func unwrapTransport(t http.RoundTripper) *http.Transport {
	if of, found := wrapped.Load(t); found {
		return of.(*http.Transport)
	}
	return t.(*http.Transport)
}

// ExampleReport runs after the tests. Some handlers return later than these.
func ExampleReport() {
	for i := 0; i < 600 && requests.starts.Load() != requests.ends.Load(); i++ {
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "requests", requests.starts.Load(), requests.ends.Load())
	fmt.Fprintln(os.Stderr, "fetches", fetches.starts.Load(), fetches.ends.Load())
	// Output:
}
`

var (
	// ofCaller are net/http's tests of messages that name the function that called it. While a
	// request is traced, this is the wrapper of the ResponseWriter.
	ofCaller = regexp.MustCompile(`^TestWriteHeaderNoCodeCheck(/h1|_h1hijack)?$`)
	// ofTimeout are its tests of the message about a client's Timeout. If a client has another
	// RoundTripper than a *Transport, its timer and the context's deadline race for it.
	ofTimeout = regexp.MustCompile(`^TestClientTimeout(_Headers)?(/h[12])?$`)
)

// goroot is a copy of GOROOT: a package of the standard library can import only what is
// vendored there.
type goroot string

// copyGoroot makes a copy in which the program of net/http's tests can be changed.
func copyGoroot(t *testing.T) goroot {
	t.Helper()
	root := goroot(t.TempDir())
	original := strings.TrimSpace(string(root.run(t, "go env GOROOT")))
	root.run(t, "cp -a "+original+"/src src; chmod -R u+w src")
	for _, name := range []string{"bin", "pkg", "lib", "VERSION", "go.env"} {
		require.NoError(t, os.Symlink(filepath.Join(original, name), filepath.Join(string(root), name)))
	}
	return root
}

// run runs a command of the shell in the copy, and returns what it printed.
func (root goroot) run(t *testing.T, command string) []byte {
	t.Helper()
	cmd := exec.Command("sh", "-ec", command)
	cmd.Dir = string(root)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s%s", command, out, stderr.Bytes())
	return out
}

// edit changes a file of src.
func (root goroot) edit(t *testing.T, path string, change func(string) string) {
	t.Helper()
	path = filepath.Join(string(root), "src", path)
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := change(string(old))
	require.NotEqual(t, string(old), changed, path)
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
}

// vendor copies a package, and those that it imports.
func (root goroot) vendor(t *testing.T, name string) {
	t.Helper()
	vendored := "# github.com/go-stapsdt/stapsdt v0.1.0\n## explicit; go 1.25.0\n"
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Dir}}{{end}}", name)
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	packages, err := list.Output()
	require.NoError(t, err)
	unix := false
	for line := range strings.Lines(string(packages)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		root.run(t, fmt.Sprintf("to=src/vendor/%s; mkdir -p $to; cp %s/*.go $to; cp %[2]s/*.[sh] $to 2>/dev/null || true; rm -f $to/*_test.go", path, dir))
		if path == "golang.org/x/sys/unix" {
			unix = true
			continue
		}
		vendored += path + "\n"
	}
	require.True(t, unix, "%s", packages)
	root.edit(t, "vendor/modules.txt", func(text string) string {
		return strings.Replace(text, "golang.org/x/sys/cpu\n", "golang.org/x/sys/cpu\ngolang.org/x/sys/unix\n", 1) + vendored
	})
	root.edit(t, "go.mod", func(text string) string {
		return strings.Replace(text, "require (", "require (\n\tgithub.com/go-stapsdt/stapsdt v0.1.0", 1)
	})
}

// suite builds the tests of a package of src.
func (root goroot) suite(t *testing.T, pkg string, flags ...string) suite {
	t.Helper()
	dir, program := string(root)+"/src/"+pkg, string(root)+"/pkg.test"
	env := append(os.Environ(), "GOROOT="+string(root), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	build := exec.Command("go", "test", "-vet=off", "-c", "-o", program, ".")
	build.Dir, build.Env = dir, env
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return suite{command: func(mode string) *exec.Cmd {
		cmd := exec.Command(program, append([]string{"-test.v", "-test.run=^Test|^ExampleReport$", "-test.timeout=5m"}, flags...)...)
		cmd.Dir, cmd.Env = dir, append(slices.Clone(env), "MODE="+mode)
		return cmd
	}}
}

// TestNetHTTP: what passes of net/http's own tests, with servers of HTTP/1 and HTTP/2, also
// passes if their handlers and the transports of their clients are wrapped, idle and observed.
func TestNetHTTP(t *testing.T) {
	testenv.Long(t, "it builds net/http's tests and runs them three times")
	root := copyGoroot(t)
	root.vendor(t, "github.com/go-stapsdt/stapsdt/instrument/httpprobe")
	wrap(t, root)
	// The tests of whole programs, of what the go command builds, have no handlers.
	tests := root.suite(t, "net/http", "-test.short", "-test.skip=^TestOmitHTTP2Vet$")
	tests.excused = func(mode, name string) bool {
		return ofTimeout.MatchString(name) || mode == "traced" && ofCaller.MatchString(name)
	}
	out := tests.compare(t, 1000)
	starts, ends := observed(t, out, "requests")
	require.Equal(t, starts, ends)
	require.Greater(t, starts, 1000)
	starts, ends = observed(t, out, "fetches")
	require.LessOrEqual(t, ends, starts) // some tests never close a body
	require.Greater(t, ends, 1000)
}

// wrap makes net/http's tests wrap the handlers of their servers and the transports of their
// clients. Most then change the transport, which they must find in the wrapper.
func wrap(t *testing.T, root goroot) {
	t.Helper()
	root.edit(t, "net/http/clientserver_test.go", func(text string) string {
		text = strings.Replace(text, "\tcst := &clientServerTest{\n", "\th = wrapHandler(h)\n\tcst := &clientServerTest{\n", 1)
		return strings.Replace(text, "\tfor _, f := range transportFuncs {\n", "\tcst.c.Transport = wrapTransport(cst.tr)\n\tfor _, f := range transportFuncs {\n", 1)
	})
	asserted := regexp.MustCompile(`\b(\w+(?:\.\w+(?:\(\))?)*\.Transport)\.\(\*Transport\)`)
	found := 0
	for _, name := range []string{"alpn", "client", "clientserver", "serve", "transport"} {
		root.edit(t, "net/http/"+name+"_test.go", func(text string) string {
			text = strings.ReplaceAll(text, ".Transport.(*Transport).CancelRequest(", ".Transport.(interface{ CancelRequest(*Request) }).CancelRequest(")
			found += len(asserted.FindAllString(text, -1))
			return asserted.ReplaceAllString(text, "unwrapTransport($1)")
		})
	}
	require.Greater(t, found, 50)
	require.NoError(t, os.WriteFile(string(root)+"/src/net/http/probes_test.go", []byte(wrappers), 0o600))
}

// modes are how a suite runs: without the probes, with them, and with all of them observed.
// The suite's program finds its mode in the environment variable MODE.
var modes = [...]string{"plain", "idle", "traced"}

// suite is the tests of another module, with probes in what they test.
type suite struct {
	// command runs the tests, with -test.v.
	command func(mode string) *exec.Cmd
	// excused reports whether a test may fail in a mode.
	excused func(mode, name string) bool
}

var verdict = regexp.MustCompile(`(?m)^ *--- PASS: (\S+)`)

// run runs tests and returns the names of those that passed. Some of the others need what
// is not here.
func (s *suite) run(mode string) (passed []string, out []byte) {
	out, _ = s.command(mode).CombinedOutput()
	for _, m := range verdict.FindAllSubmatch(out, -1) {
		passed = append(passed, string(m[1]))
	}
	return passed, out
}

// compare requires that what passes without the probes, of which there is more than least,
// also passes with them. It runs all modes at the same time, and returns what the program
// printed while the probes were observed.
func (s *suite) compare(t *testing.T, least int) (out []byte) {
	t.Helper()
	var all sync.WaitGroup
	var passed [len(modes)][]string
	var printed [len(modes)][]byte
	for i, mode := range modes {
		all.Go(func() { passed[i], printed[i] = s.run(mode) })
	}
	all.Wait()
	require.Greater(t, len(passed[0]), least, "%s", printed[0])
	t.Logf("%d pass without the probes", len(passed[0]))
	failed := 0
	for i, mode := range modes[1:] {
		for _, name := range passed[0] {
			if slices.Contains(passed[i+1], name) || s.excused != nil && s.excused(mode, name) {
				continue
			}
			failed++
			t.Logf("%s does not pass %s:\n%s", name, mode, printed[i+1])
		}
	}
	// One may depend on time.
	testenv.Figure(t, "tests that pass without the probes only", float64(failed), 0.5, "")
	return printed[2]
}

// observed returns the numbers of starts and of ends that a program printed after a word.
func observed(t *testing.T, out []byte, word string) (starts, ends int) {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + word + ` (\d+) (\d+)$`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	t.Logf("%s %s starts, %s ends", word, m[1], m[2])
	starts, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	ends, err = strconv.Atoi(string(m[2]))
	require.NoError(t, err)
	return starts, ends
}

// wrapConnectors is a part of database/sql: what OpenDB wraps connectors with, and what its tests
// find the driver's own values with.
const wrapConnectors = `package sql

import (
	"database/sql/driver"
	"reflect"
)

var WrapConnector = func(c driver.Connector) driver.Connector { return c }

// bare returns the value of the driver that is in one of sqlprobe's.
func bare(v any) any {
	if to, ok := v.(interface{ Unwrap() driver.Conn }); ok {
		return to.Unwrap()
	}
	of := reflect.Indirect(reflect.ValueOf(v))
	for _, name := range []string{"Connector", "Rows", "Tx"} {
		if f, ok := of.Type().FieldByName(name); ok && f.Type.PkgPath() == "database/sql/driver" {
			return of.FieldByIndex(f.Index).Interface()
		}
	}
	return v
}
`

// probeConnectors wraps all connectors of database/sql's tests.
const probeConnectors = `package sql_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
)

var starts, ends atomic.Int64

func init() {
	if os.Getenv("MODE") == "plain" {
		return
	}
	app := stapsdt.NewProvider("sql")
	sql.WrapConnector = sqlprobe.New(app).Connector
	if os.Getenv("MODE") == "traced" {
		app.Observe(func(e *stapsdt.Event) {
			if strings.HasSuffix(e.Probe().Name(), "__start") {
				starts.Add(1)
			} else {
				ends.Add(1)
			}
		})
	}
}

// ExampleReport runs after the tests.
func ExampleReport() {
	fmt.Fprintln(os.Stderr, "queries", starts.Load(), ends.Load())
	// Output:
}
`

// TestDatabaseSQL: what passes of database/sql's own tests, with its fake driver, also passes if
// every connector is wrapped, idle and observed.
func TestDatabaseSQL(t *testing.T) {
	testenv.Long(t, "it builds database/sql's tests and runs them three times")
	root := copyGoroot(t)
	root.vendor(t, "github.com/go-stapsdt/stapsdt/instrument/sqlprobe")
	root.edit(t, "database/sql/sql.go", func(text string) string {
		return strings.Replace(text, "\t\tconnector: c,\n", "\t\tconnector: WrapConnector(c),\n", 1)
	})
	asserted := regexp.MustCompile(`\b([\w.\[\]]+\.(?:ci|rowsi|txi|connector)|dc|raw)\.\(\*`)
	found := 0
	root.edit(t, "database/sql/sql_test.go", func(text string) string {
		found += len(asserted.FindAllString(text, -1))
		return asserted.ReplaceAllString(text, "bare($1).(*")
	})
	require.Greater(t, found, 15)
	dir := filepath.Join(string(root), "src/database/sql")
	require.NoError(t, os.WriteFile(dir+"/probes.go", []byte(wrapConnectors), 0o600))
	require.NoError(t, os.WriteFile(dir+"/probes_test.go", []byte(probeConnectors), 0o600))
	tests := root.suite(t, "database/sql")
	starts, ends := observed(t, tests.compare(t, 100), "queries")
	require.Greater(t, starts, 1000)
	require.LessOrEqual(t, ends, starts) // some tests close neither their rows nor their transactions
}
