//go:build linux && (amd64 || arm64)

package docs_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuideDoctor follows the sections of command.md on doctor and clean, and the first
// paragraph of nothing-shows.md.
func TestGuideDoctor(t *testing.T) {
	needs(t)
	buildCommand(t)
	g := readGuide(t, "command.md")
	g.blocks = slices.DeleteFunc(g.blocks, func(b *block) bool {
		return !slices.ContainsFunc(b.lines, func(line string) bool {
			return strings.HasPrefix(line, "$ stapsdt doctor") || strings.HasPrefix(line, "$ stapsdt clean")
		})
	})
	g.hello(t)
	file := g.replace.Replace("FILE")
	library := filepath.Join(filepath.Dir(file), "library-aB3dEf.so")
	g.run(t, "cp "+file+" "+library)
	clean := &guide{document: g.document, blocks: g.blocks}
	clean.replace = strings.NewReplacer("DIRECTORY", filepath.Dir(file), "/tmp/stapsdt-0/library-aB3dEf.so", library)
	clean.follow(t, "stapsdt clean")
	require.NoFileExists(t, library)

	top := &guide{document: g.document, blocks: readGuide(t, "nothing-shows.md").blocks}
	top.follow(t, "stapsdt doctor")
	g.follow(t, "stapsdt doctor -p PID hello:greting") // and what is with it, of which the last deletes the file
}
