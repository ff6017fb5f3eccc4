package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// floors are the folders of internal in layers, the lowest first. A package imports only packages
// of its own folder and of lower layers.
var floors = [][]string{
	{"query"}, {"show"}, {"find"}, {"stream"}, {"kernel"}, {"verb", "export", "tools"}, {"kube"},
}

// maxArrows is the maximum number of pairs of folders of which one imports the other.
const maxArrows = 29

// floor returns the index of the floor on which a folder is, or -1.
func floor(folder string) int {
	return slices.IndexFunc(floors, func(on []string) bool { return slices.Contains(on, folder) })
}

// TestOrder: the path of a file says what it may import.
func TestOrder(t *testing.T) {
	arrows := map[[2]string]bool{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		c := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, internal+"...")
		c.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := c.Output()
		require.NoError(t, err)
		for line := range strings.Lines(string(out)) {
			paths := strings.Fields(line)
			from, _, _ := strings.Cut(strings.TrimPrefix(paths[0], internal), "/")
			require.NotEqual(t, -1, floor(from), "the folder %s has no floor", from)
			for _, path := range paths[1:] {
				name, ours := strings.CutPrefix(path, internal)
				to, _, _ := strings.Cut(name, "/")
				if !ours || to == from {
					continue
				}
				require.Less(t, floor(to), floor(from), "%s imports %s", paths[0], path)
				arrows[[2]string{from, to}] = true
			}
		}
	}
	require.NotEmpty(t, arrows)
	require.LessOrEqual(t, len(arrows), maxArrows, "%v", arrows)
}
