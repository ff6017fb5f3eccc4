package docs_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../../"

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
			data, err := os.ReadFile(root + file)
			require.NoError(t, err)
			names := script.FindAllString(string(data), -1)
			require.NotEmpty(t, names)
			for _, name := range names {
				info, err := os.Stat(root + name)
				require.NoError(t, err)
				content, err := os.ReadFile(root + name)
				require.NoError(t, err)
				// The others are sourced.
				require.Equal(t, strings.HasPrefix(string(content), "#!"), info.Mode()&0o111 != 0, name)
			}
		})
	}
}

// TestDockerfileCopiesTheWorkspace: the image downloads the modules before it has the rest of
// the repository, and go refuses a workspace of which a module is missing.
func TestDockerfileCopiesTheWorkspace(t *testing.T) {
	workspace, err := os.ReadFile(root + "go.work")
	require.NoError(t, err)
	dockerfile, err := os.ReadFile(root + "Dockerfile")
	require.NoError(t, err)
	before, _, found := strings.Cut(string(dockerfile), "RUN go mod download")
	require.True(t, found)
	modules := regexp.MustCompile(`(?m)^\t\./(.+)$`).FindAllStringSubmatch(string(workspace), -1)
	require.NotEmpty(t, modules)
	for _, module := range modules {
		directory := module[1] + "/"
		require.Contains(t, before, "COPY "+directory+"go.mod "+directory+"go.sum "+directory+"\n")
	}
}

// TestPartsOfTheLongRun states that every part that CONTRIBUTING.md tells a contributor to run exists, and that it names each.
func TestPartsOfTheLongRun(t *testing.T) {
	list, err := exec.Command(root+"scripts/long.sh", "--list").Output()
	require.NoError(t, err)
	var parts []string
	for line := range strings.Lines(string(list)) {
		parts = append(parts, strings.Fields(line)[0])
	}
	contributing, err := os.ReadFile(root + "CONTRIBUTING.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(contributing), "\n| if you changed | run |\n|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	named := map[string]bool{}
	for row := range strings.Lines(table) {
		_, run, found := strings.Cut(row, " | ")
		require.True(t, found, row)
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(run, -1) {
			for _, part := range strings.Fields(m[1]) {
				require.Contains(t, parts, part)
				named[part] = true
			}
		}
	}
	for _, part := range parts {
		require.True(t, named[part], part)
	}
}
