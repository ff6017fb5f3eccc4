package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tour returns the section of CONTRIBUTING.md that leads through the tree.
func tour(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(root + "CONTRIBUTING.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(data), "\n## A tour\n")
	require.True(t, found)
	section, _, found = strings.Cut(section, "\n## ")
	require.True(t, found)
	return section
}

// TestTourNamesWhatExists: every file and directory that the tour names exists.
func TestTourNamesWhatExists(t *testing.T) {
	section := tour(t)
	// A name without a slash may be a file in a directory that the sentence has named.
	bases := []string{"", "cmd/stapsdt/", "cmd/stapsdt/internal/", "cstapsdt/", "instrument/", "internal/test/"}
	names := regexp.MustCompile("`([a-z0-9_/]+(?:\\.(?:go|c|h|def)|/)|(?:internal|cmd)/[a-z/]+|[A-Z]+\\.md)`").FindAllStringSubmatch(section, -1)
	require.Greater(t, len(names), 40)
	for _, name := range names {
		exists := false
		for _, base := range bases {
			_, err := os.Stat(root + base + name[1])
			exists = exists || err == nil
		}
		require.True(t, exists, "the tour names %s", name[1])
	}
}

// TestTourNamesEveryRoom: the tour leads to every directory at the root, below internal and
// below the command's internal.
func TestTourNamesEveryRoom(t *testing.T) {
	section := tour(t)
	for _, parent := range []string{"", "internal/", "cmd/stapsdt/internal/"} {
		rooms, err := os.ReadDir(root + parent)
		require.NoError(t, err)
		require.NotEmpty(t, rooms)
		for _, room := range rooms {
			if !room.IsDir() || strings.HasPrefix(room.Name(), ".") {
				continue
			}
			name := filepath.Join(parent, room.Name())
			if parent == "cmd/stapsdt/internal/" {
				name = room.Name()
			}
			require.Regexp(t, "`"+regexp.QuoteMeta(name)+"[`/]", section, "the tour does not lead to %s", parent+room.Name())
		}
	}
}

// TestReadmeIsShort: README has at most 130 lines, and links to what else there is.
func TestReadmeIsShort(t *testing.T) {
	data, err := os.ReadFile(root + "README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(data), "\n"), 130)
}

// TestIndex: the index of the documentation has every page.
func TestIndex(t *testing.T) {
	docs := repository(t) + "/docs/"
	index, err := os.ReadFile(docs + "README.md")
	require.NoError(t, err)
	pages, err := filepath.Glob(docs + "*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			require.Contains(t, string(index), "]("+name+")")
		}
	}
}
