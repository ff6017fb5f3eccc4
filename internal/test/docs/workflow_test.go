package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../../"

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

var script = regexp.MustCompile(`\bscripts/[\w/.-]+\.(sh|py)\b|\.ci/run\b`)

// TestScriptsOfTheWorkflow: each script that CI or a document names exists and can be run.
// actionlint, in scripts/lib/lint.sh, looks at everything else in the workflows.
func TestScriptsOfTheWorkflow(t *testing.T) {
	for _, file := range []string{
		".github/workflows/ci.yml", ".github/workflows/long.yml", ".github/workflows/release.yml", "README.md", "CONTRIBUTING.md", "SECURITY.md",
		"scripts/test.sh", "scripts/long.sh", "scripts/tables.sh",
		"docs/containers.md",
	} {
		t.Run(file, func(t *testing.T) {
			names := script.FindAllString(readFile(t, root+file), -1)
			require.NotEmpty(t, names)
			for _, name := range names {
				info, err := os.Stat(root + name)
				require.NoError(t, err)
				// The others are sourced.
				require.Equal(t, strings.HasPrefix(readFile(t, root+name), "#!"), info.Mode()&0o111 != 0, name)
			}
		})
	}
}

// TestDockerfileCopiesTheWorkspace: the image downloads the modules before it has the rest of
// the repository, and go refuses a workspace of which a module is missing.
func TestDockerfileCopiesTheWorkspace(t *testing.T) {
	before, _, found := strings.Cut(readFile(t, root+"Dockerfile"), "RUN go mod download")
	require.True(t, found)
	modules := regexp.MustCompile(`(?m)^\t\./(.+)$`).FindAllStringSubmatch(readFile(t, root+"go.work"), -1)
	require.NotEmpty(t, modules)
	for _, module := range modules {
		directory := module[1] + "/"
		require.Contains(t, before, "COPY "+directory+"go.mod "+directory+"go.sum "+directory+"\n")
	}
}
