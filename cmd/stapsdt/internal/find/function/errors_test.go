//go:build linux

package function

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestErrorTexts: in the source of the standard library, the method Error of each type returns the
// string with which its values begin.
func TestErrorTexts(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	found := 0
	for _, name := range errorTexts {
		path, pointer := strings.CutPrefix(name, "*")
		dot := strings.LastIndexByte(path, '.')
		path, typ := path[:dot], path[dot+1:]
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src", path, "*.go"))
		require.NoError(t, err)
		first, method := "", ""
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range f.Decls {
				if s := firstString(d, typ); s != "" {
					first = s
				}
				if m := errorMethod(d, typ, pointer); m != "" {
					method = m
				}
			}
		}
		if path == "net/http" && first == "" { // Go 1.22 has httpError, later releases timeoutError
			continue
		}
		assert.NotEmpty(t, first, name)
		assert.Equal(t, first, method, name)
		found++
	}
	assert.GreaterOrEqual(t, found, len(errorTexts)-1)
}

// firstString returns the first field of a declared struct, or string for a string type.
func firstString(d ast.Decl, typ string) string {
	g, ok := d.(*ast.GenDecl)
	if !ok {
		return ""
	}
	for _, s := range g.Specs {
		s, ok := s.(*ast.TypeSpec)
		if !ok || s.Name.Name != typ {
			continue
		}
		switch s := s.Type.(type) {
		case *ast.Ident:
			return s.Name
		case *ast.StructType:
			first := s.Fields.List[0]
			if is, ok := first.Type.(*ast.Ident); ok && is.Name == "string" {
				return first.Names[0].Name
			}
		}
	}
	return ""
}

// errorMethod returns the field that the method Error of a type returns, or string for the value itself. It returns ? for
// any other method.
func errorMethod(d ast.Decl, typ string, pointer bool) string {
	fn, ok := d.(*ast.FuncDecl)
	if !ok || fn.Name.Name != "Error" || fn.Recv == nil || fn.Type.Results == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	star, isPointer := of.(*ast.StarExpr)
	if isPointer {
		of = star.X
	}
	if is, ok := of.(*ast.Ident); !ok || is.Name != typ {
		return ""
	}
	if result, ok := fn.Body.List[0].(*ast.ReturnStmt); ok && pointer == isPointer && len(fn.Body.List) == 1 {
		receiver := fn.Recv.List[0].Names[0].Name
		switch x := result.Results[0].(type) {
		case *ast.SelectorExpr:
			if of, ok := x.X.(*ast.Ident); ok && of.Name == receiver {
				return x.Sel.Name
			}
		case *ast.CallExpr:
			if of, ok := x.Args[0].(*ast.Ident); ok && of.Name == receiver {
				return x.Fun.(*ast.Ident).Name
			}
		}
	}
	return "?"
}
