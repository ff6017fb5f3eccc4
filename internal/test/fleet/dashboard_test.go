//go:build linux && (amd64 || arm64)

package fleet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// The packages of npm that check a dashboard: Grafana's types of its JSON model, and the compiler.
const grafanaTypes, compiler = "@grafana/schema@13.2.3", "typescript@5.9.3"

// packaged returns a file of packaging/prometheus.
func packaged(t *testing.T, name string) string {
	t.Helper()
	return string(tracetest.Must(os.ReadFile(filepath.Join("../../../packaging/prometheus", name)))(t))
}

// TestDashboardTypes: TypeScript accepts the dashboard as a value of Grafana's type, and its queries
// as values of the type of queries. It accepts neither an unknown key nor a value of another type.
func TestDashboardTypes(t *testing.T) {
	const packages = "Grafana's types and a compiler"
	testenv.Downloads(t, packages, nil)
	npm := testenv.NeedsTool(t, "npm", "npm")
	dir := t.TempDir()
	err := exec.Command(npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, grafanaTypes, compiler).Run()
	testenv.Downloads(t, packages, err)
	dashboard := packaged(t, "dashboard.json")

	// The type of a panel takes any object for a query, so that queries are checked apart.
	require.NoError(t, checkTypes(t, dir, dashboard))
	for _, mistake := range []struct{ of, by string }{
		{`"gridPos"`, `"gridpos"`}, {`"schemaVersion": 39`, `"schemaVersion": "39"`}, {`"type": "datasource"`, `"type": "source"`}, {`"refId"`, `"id"`},
	} {
		changed := strings.Replace(dashboard, mistake.of, mistake.by, 1)
		require.NotEqual(t, dashboard, changed)
		require.ErrorContains(t, checkTypes(t, dir, changed), "error TS", mistake.by)
	}
}

// checkTypes compiles a dashboard in a directory that has the packages.
func checkTypes(t *testing.T, dir, dashboard string) error {
	t.Helper()
	var queries strings.Builder
	for _, targets := range strings.SplitAfter(dashboard, `"targets": [`)[1:] {
		objects, _, found := strings.Cut(targets, "\n      ]")
		require.True(t, found)
		queries.WriteString(strings.TrimSpace(objects) + ",\n")
	}
	program := `import type { Dashboard, DataQuery } from "@grafana/schema";
export const dashboard: Dashboard = ` + dashboard + `;
export const queries: (DataQuery & { expr: string; legendFormat: string })[] = [` + queries.String() + "];\n"
	path := filepath.Join(dir, "dashboard.ts")
	require.NoError(t, os.WriteFile(path, []byte(program), 0o600))
	cmd := exec.Command(filepath.Join(dir, "node_modules/.bin/tsc"), "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext", path)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
