package languages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Copy copies the examples of languages, and the sources of the C library to the place where
// their commands look for them, and returns the directory of examples and cstapsdt. Commands may
// leave files there.
func Copy(t testing.TB, names ...string) (dir string) {
	t.Helper()
	const root = "../../.."
	dir = t.TempDir()
	for _, name := range names {
		require.NoError(t, os.CopyFS(dir+"/examples/"+name, os.DirFS(root+"/examples/"+name)))
	}
	library := dir + "/cstapsdt"
	require.NoError(t, os.Mkdir(library, 0o755))
	for _, pattern := range []string{"Makefile", "*.awk", "*.c", "*.def", "*.h", "*.in", "*.map"} {
		files, err := filepath.Glob(root + "/cstapsdt/" + pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(library, filepath.Base(file)), data, 0o644))
		}
	}
	return dir
}
