package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../../"

var (
	script = regexp.MustCompile(`\bscripts/[\w/.-]+\.sh\b|\.ci/run\b`)
	matrix = regexp.MustCompile(`(?m)^ +(\w+): \[(.*)\]$`)
)

// TestScriptsOfTheWorkflow: each script that CI or a document names exists and can be run.
// actionlint, in scripts/lib/lint.sh, looks at everything else in the workflow.
func TestScriptsOfTheWorkflow(t *testing.T) {
	for _, file := range []string{
		".github/workflows/ci.yml", ".github/workflows/release.yml", "README.md", "CONTRIBUTING.md", "SECURITY.md", "scripts/test.sh", "scripts/tables.sh",
		"docs/containers.md", "docs/command.md",
	} {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(root + file)
			require.NoError(t, err)
			text := string(data)
			for _, m := range matrix.FindAllStringSubmatch(text, -1) {
				for value := range strings.SplitSeq(m[2], ", ") {
					text += "\n" + strings.ReplaceAll(string(data), "${{ matrix."+m[1]+" }}", strings.Trim(value, `"`))
				}
			}
			names := script.FindAllString(text, -1)
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

// TestActionsArePinned: a tag can be moved to other code, and a hash cannot. Each hash is followed by its tag, and is the
// same in all workflows.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob(root + ".github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	uses := regexp.MustCompile(`uses: (.*)`)
	pinned := regexp.MustCompile(`^([\w/-]+)@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	seen := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range uses.FindAllSubmatch(content, -1) {
			action := pinned.FindStringSubmatch(string(m[1]))
			require.NotNil(t, action, "%s: %s", file, m[1])
			if other, ok := seen[action[1]]; ok {
				require.Equal(t, other, action[0], file)
			}
			seen[action[1]] = action[0]
		}
	}
	require.NotEmpty(t, seen)
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
