//go:build linux

package instrument

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/postgres"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// wrapPQ is what lib/pq's tests open databases with. MODE says whether with the probes, and
// whether these are observed.
const wrapPQ = `package pqtest

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
)

var (
	app          = stapsdt.NewProvider("pq")
	probes       = sqlprobe.New(app)
	starts, ends atomic.Int64
)

func init() {
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

func Open(driver, source string) (*sql.DB, error) {
	if os.Getenv("MODE") == "plain" {
		return sql.Open(driver, source)
	}
	return probes.Open(driver, source)
}

func OpenDB(c driver.Connector) *sql.DB {
	if os.Getenv("MODE") == "plain" {
		return sql.OpenDB(c)
	}
	return sql.OpenDB(probes.Connector(c))
}

// Report prints what was observed.
func Report() { fmt.Printf("observed %d %d\n", starts.Load(), ends.Load()) }
`

// TestDriversOwnTests: what passes of lib/pq's own tests also passes with the probes, idle
// and observed.
func TestDriversOwnTests(t *testing.T) {
	testenv.LongOnce(t, "it builds another module's tests and runs them three times")
	source, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/lib/pq").Output()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(source)))))
	require.NoError(t, exec.Command("chmod", "-R", "u+w", dir).Run())
	require.NoError(t, os.WriteFile(dir+"/internal/pqtest/probes.go", []byte(wrapPQ), 0o600))
	opens := 0
	tests, err := filepath.Glob(dir + "/*_test.go")
	require.NoError(t, err)
	for _, file := range append(tests, dir+"/internal/pqtest/pqtest.go") {
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		call := []byte("pqtest.$1(")
		if strings.HasSuffix(file, "/pqtest.go") {
			call = []byte("$1(")
		} else if !bytes.Contains(code, []byte(`/internal/pqtest"`)) {
			continue
		}
		open := regexp.MustCompile(`\bsql\.(Open|OpenDB)\(`)
		opens += len(open.FindAll(code, -1))
		code = open.ReplaceAll(code, call)
		code = bytes.Replace(code, []byte("e := m.Run()"), []byte("e := m.Run()\n\tpqtest.Report()"), 1)
		if bytes.Contains(code, []byte(`"database/sql"`)) {
			code = append(code, "\nvar _ sql.DB // if nothing else uses the package\n"...)
		}
		require.NoError(t, os.WriteFile(file, code, 0o600))
	}
	require.Greater(t, opens, 5)

	repository, err := filepath.Abs("../../..")
	require.NoError(t, err)
	run := func(name string, args ...string) []byte {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return out
	}
	run("cp", repository+"/internal/test/go.sum", "go.sum")
	run("go", "mod", "edit", "-go", "1.25.0", "-require", "github.com/go-stapsdt/stapsdt@v0.1.0", "-replace", "github.com/go-stapsdt/stapsdt="+repository)
	run("go", "test", "-c", "-o", "pq.test", ".")

	// At the same time, each with a server of its own.
	var all sync.WaitGroup
	runs := map[string]*pqRun{}
	for _, mode := range []string{"plain", "idle", "traced"} {
		r := &pqRun{dir: dir, mode: mode, socket: pqServer(t)}
		runs[mode] = r
		all.Go(func() { r.passed, r.out = r.run("^Test") }) // the examples end the program if they fail
	}
	all.Wait()
	plain := runs["plain"].passed
	require.Greater(t, len(plain), 300, "%s", runs["plain"].out)
	t.Logf("%d pass without the probes", len(plain))
	for _, mode := range []string{"idle", "traced"} {
		for _, name := range plain {
			if r := runs[mode]; !slices.Contains(r.passed, name) {
				// It may be one that depends on time.
				top, _, _ := strings.Cut(name, "/")
				again, out := r.run("^" + top + "$")
				require.Contains(t, again, name, "%s: %s", mode, out)
			}
		}
	}
	m := regexp.MustCompile(`(?m)^observed (\d+) (\d+)$`).FindSubmatch(runs["traced"].out)
	require.NotNil(t, m, "%s", runs["traced"].out)
	t.Logf("%s starts, %s ends", m[1], m[2])
	require.Greater(t, len(m[1]), 3, "thousands of starts")
}

// pqServer starts a server for lib/pq's tests.
func pqServer(t *testing.T) (socket string) {
	s := postgres.Start(t)
	s.Query(t, "CREATE ROLE pqgo SUPERUSER LOGIN", "CREATE DATABASE pqgo OWNER pqgo")
	return s.Socket
}

// pqRun is a run of lib/pq's tests in one mode.
type pqRun struct {
	dir, mode, socket string
	passed            []string
	out               []byte
}

var verdict = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`)

// run runs the tests that match, and returns the names of those that passed. Some of the
// others need a server that is set up for them.
func (r *pqRun) run(pattern string) (passed []string, out []byte) {
	// Those of listeners depend on time, and use no database/sql.
	cmd := exec.Command("./pq.test", "-test.run="+pattern, "-test.skip=Listen|Notif", "-test.v", "-test.timeout=5m")
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "MODE="+r.mode, "PGHOST="+r.socket)
	out, _ = cmd.CombinedOutput()
	for _, m := range verdict.FindAllSubmatch(out, -1) {
		if string(m[1]) == "PASS" {
			passed = append(passed, string(m[2]))
		}
	}
	return passed, out
}
