package sqlprobe

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryInterface: the package knows all interfaces of database/sql/driver. One that a new version of Go adds
// must have a place in the package and in this test's drivers, because database/sql would not find it in wrapped values.
func TestEveryInterface(t *testing.T) {
	known := map[string]bool{
		// These are not wrapped.
		"Driver": true, "DriverContext": true, "Result": true, "Value": true, "ValueConverter": true, "Valuer": true, "ScanContext": true,
		"Connector": true,
		// of connections
		"Conn": true, "ConnBeginTx": true, "ConnPrepareContext": true, "Execer": true, "ExecerContext": true, "Queryer": true,
		"QueryerContext": true, "Pinger": true, "SessionResetter": true, "Validator": true, "NamedValueChecker": true,
		// of statements and transactions
		"Stmt": true, "StmtExecContext": true, "StmtQueryContext": true, "ColumnConverter": true, "Tx": true,
		// of rows
		"Rows": true, "RowsNextResultSet": true, "RowsColumnScanner": true, "RowsColumnTypeScanType": true, "RowsColumnTypeDatabaseTypeName": true,
		"RowsColumnTypeLength": true, "RowsColumnTypeNullable": true, "RowsColumnTypePrecisionScale": true,
	}
	files, err := filepath.Glob(filepath.Join(runtime.GOROOT(), "src/database/sql/driver/*.go")) //lint:ignore SA1019 the tests run where they were built
	require.NoError(t, err)
	require.NotEmpty(t, files)
	found := 0
	for _, file := range files {
		code, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(code, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				if _, ok := spec.Type.(*ast.InterfaceType); ok {
					found++
					require.True(t, known[spec.Name.Name], spec.Name.Name)
				}
			}
			return true
		})
	}
	require.Greater(t, found, 20)
}
