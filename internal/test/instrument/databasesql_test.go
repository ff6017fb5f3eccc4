//go:build linux

package instrument

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

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
