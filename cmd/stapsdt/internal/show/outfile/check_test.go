package outfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCheck: Check decides by what a file has, on every system, and touches no file.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		text, begins string
		replaced     bool
	}{
		{"", "head", true}, {"", "", true}, {"head and more", "head", true}, {"hea", "head", false}, {" head", "head", false}, {"text", "", false},
		{Timelines["chrome"] + "]}", Timelines["chrome"], true}, {Timelines["chrome"], Timelines["perfetto"], false},
	} {
		path := filepath.Join(dir, "file")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		err := Check(path, c.begins)
		if c.replaced {
			require.NoError(t, err, c)
		} else {
			require.EqualError(t, err, path+" exists and was not written by this command; it is not overwritten", c)
			_, createErr := Create(path, c.begins)
			require.Equal(t, err, createErr)
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, c.text, string(b))
	}
	require.NoError(t, Check(filepath.Join(dir, "new"), "head"))
	require.NoFileExists(t, filepath.Join(dir, "new"))
}
