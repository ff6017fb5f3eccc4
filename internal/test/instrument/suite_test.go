//go:build linux

package instrument

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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
func Report() { fmt.Printf("queries %d %d\n", starts.Load(), ends.Load()) }
`

// TestDriversOwnTests: what passes of lib/pq's own tests also passes with the probes, idle
// and observed.
func TestDriversOwnTests(t *testing.T) {
	testenv.Long(t, "it builds another module's tests and runs them three times")
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

	sockets := map[string]string{} // each mode has a server of its own
	for _, mode := range modes {
		s := postgres.Start(t)
		s.Query(t, "CREATE ROLE pqgo SUPERUSER LOGIN", "CREATE DATABASE pqgo OWNER pqgo")
		sockets[mode] = s.Socket
	}
	pq := suite{pattern: "^Test", command: func(mode, pattern string) *exec.Cmd { // the examples end the program if they fail
		// Those of listeners depend on time, and use no database/sql.
		cmd := exec.Command("./pq.test", "-test.run="+pattern, "-test.skip=Listen|Notif", "-test.v", "-test.timeout=5m")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "MODE="+mode, "PGHOST="+sockets[mode])
		return cmd
	}}
	starts, _ := observed(t, pq.compare(t, 300), "queries")
	require.Greater(t, starts, 1000)
}
