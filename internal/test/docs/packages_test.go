package docs_test

import (
	"errors"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// publicPackages returns the directories of the packages that programs import: not those of programs,
// and none whose comment calls it an implementation detail.
func publicPackages(t *testing.T) (dirs []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch name := d.Name(); {
		case filepath.Clean(dir) == filepath.Clean(root):
		case name == "internal", name == "testdata", strings.HasPrefix(name, "."), dir == root+"examples":
			return fs.SkipDir
		}
		if isPublic(t, dir) {
			dirs = append(dirs, dir)
		}
		return nil
	}))
	return dirs
}

// isPublic reports whether a directory has a package that programs import.
func isPublic(t *testing.T, dir string) bool {
	t.Helper()
	pkg, err := build.ImportDir(dir, 0)
	if none := (*build.NoGoError)(nil); errors.As(err, &none) {
		return false
	}
	require.NoError(t, err)
	return !pkg.IsCommand() && !strings.Contains(pkg.Doc, "implementation detail")
}

// examples returns the examples of a package that are built on every system, with and without cgo.
func examples(t *testing.T, dir string) []*doc.Example {
	t.Helper()
	names, err := filepath.Glob(dir + "/*_test.go")
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		everywhere := true
		for _, system := range []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"} {
			for _, cgo := range []bool{false, true} {
				context := build.Default
				context.GOOS, context.GOARCH, _ = strings.Cut(system, "/")
				context.CgoEnabled = cgo
				matches, err := context.MatchFile(dir, filepath.Base(name))
				require.NoError(t, err)
				everywhere = everywhere && matches
			}
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		if everywhere && strings.HasSuffix(file.Name.Name, "_test") {
			files = append(files, file)
		}
	}
	return doc.Examples(files...)
}

// TestExamples: each public package has an example of the whole package, which its documentation
// shows first. Each example is run, on every system.
func TestExamples(t *testing.T) {
	packages := publicPackages(t)
	require.Contains(t, packages, root)
	require.Contains(t, packages, root+"instrument/httpprobe")
	for _, dir := range packages {
		whole := 0
		for _, e := range examples(t, dir) {
			require.True(t, e.Output != "" || e.EmptyOutput, "%s: Example%s has no output, and is not run", dir, e.Name)
			if e.Name == "" {
				whole++
			}
		}
		require.Equal(t, 1, whole, "%s: func Example is missing in a package of tests, or is not built everywhere", dir)
	}
}
