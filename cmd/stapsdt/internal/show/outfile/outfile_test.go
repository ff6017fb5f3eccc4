//go:build unix

package outfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCreate: only a file of the own user that is empty or begins like the output is replaced.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, text, begins string
		owner              int
		want               string
	}{
		{"new", "", "head", -1, ""},
		{"earlier", "head and more", "head", -1, ""},
		{"precious", "precious", "head", -1, "precious exists and was not written by"},
		{"short", "hea", "head", -1, "short exists and was not written by"},
		{"unknown", "text", "", -1, "unknown exists and was not written by"},
		{"theirs", "head", "head", 20001, "theirs belongs to user 20001"},
		{"theirs, and empty", "", "head", 20001, "theirs, and empty belongs to user 20001"},
	} {
		path := filepath.Join(dir, c.name)
		if c.name != "new" {
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		}
		if c.owner >= 0 {
			if os.Geteuid() != 0 {
				continue
			}
			require.NoError(t, os.Chown(path, c.owner, c.owner))
		}
		f, err := Create(path, c.begins)
		want := ""
		if c.want == "" {
			require.NoError(t, err, c.name)
			require.NoError(t, f.Close())
		} else {
			require.ErrorContains(t, err, c.want)
			want = c.text
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(b), c.name)
	}
	f, err := Create("/dev/null", "")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = Create(filepath.Join(dir, "missing", "file"), "")
	require.ErrorIs(t, err, os.ErrNotExist)
}
