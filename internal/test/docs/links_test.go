package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	fenced  = regexp.MustCompile("(?s)```.*?```")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	target  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// anchors returns the names that GitHub gives to the headings of a document.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := target.ReplaceAllString(strings.ToLower(h[1]), "$1")
		names[strings.ReplaceAll(dropped.ReplaceAllString(name, ""), " ", "-")] = true
	}
	return names
}

// TestLinks: every link from a document of this repository to another, or to a section, leads
// there.
func TestLinks(t *testing.T) {
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/README.md", "cstapsdt/bindings/*/README.md"} {
		found, err := filepath.Glob(root + pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		documents = append(documents, found...)
	}
	for _, document := range documents {
		for _, l := range link.FindAllStringSubmatch(fenced.ReplaceAllString(readFile(t, document), ""), -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(l[1], "#")
			to := document
			if path != "" {
				to = filepath.Join(filepath.Dir(document), path)
			}
			_, err := os.Stat(to)
			require.NoError(t, err, "%s links to %s", document, l[1])
			if anchor != "" {
				require.True(t, anchors(readFile(t, to))[anchor], "%s links to %s", document, l[1])
			}
		}
	}
}

// TestIndex: the index of the documentation has every page.
func TestIndex(t *testing.T) {
	index := readFile(t, root+"docs/README.md")
	pages, err := filepath.Glob(root + "docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			require.Contains(t, index, "]("+name+")")
		}
	}
}
