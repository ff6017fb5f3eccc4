package docs_test

import (
	"os"
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
		".github/workflows/ci.yml", "README.md", "CONTRIBUTING.md", "SECURITY.md", "scripts/test.sh", "scripts/tables.sh",
		"docs/nothing-shows.md", "docs/libraries.md",
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
