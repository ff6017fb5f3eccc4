package languages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Copy copies the C library's sources and the bindings of languages, and returns the directory of
// the bindings. Commands may leave files there.
func Copy(t testing.TB, names ...string) (bindings string) {
	t.Helper()
	const source = "../../../cstapsdt"
	library := t.TempDir() + "/cstapsdt"
	bindings = library + "/bindings"
	require.NoError(t, os.MkdirAll(bindings, 0o755))
	for _, name := range names {
		require.NoError(t, os.CopyFS(bindings+"/"+name, os.DirFS(source+"/bindings/"+name)))
	}
	for _, name := range []string{"recorder", "socket"} {
		require.NoError(t, os.CopyFS(library+"/"+name, os.DirFS(source+"/"+name)))
	}
	for _, pattern := range []string{"Makefile", "*.awk", "*.c", "*.def", "*.h", "*.in", "*.map"} {
		files, err := filepath.Glob(source + "/" + pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(library, filepath.Base(file)), data, 0o644))
		}
	}
	return bindings
}
