package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxLength is the maximum number of lines of a function.
const maxLength = 60

// TestLength: each function of the product can be read on one screen.
func TestLength(t *testing.T) {
	out, err := exec.Command("../../scripts/count.sh", "--files", "product").Output()
	require.NoError(t, err)
	functions := 0
	for name := range strings.FieldsSeq(string(out)) {
		if filepath.Ext(name) != ".go" {
			continue
		}
		files := token.NewFileSet()
		mode := parser.ParseComments | parser.SkipObjectResolution
		file, err := parser.ParseFile(files, filepath.Join("../..", name), nil, mode)
		require.NoError(t, err)
		if ast.IsGenerated(file) {
			continue
		}
		for _, d := range file.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			functions++
			first, last := files.Position(f.Pos()).Line, files.Position(f.End()).Line
			require.LessOrEqual(t, last-first+1, maxLength, "%s: %s", name, f.Name.Name)
		}
	}
	require.Greater(t, functions, 1000)
}
