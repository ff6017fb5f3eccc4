//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// truthPackage is a package that real programs get, whose functions then say what they are called with. It waits in
// its init, which precedes those of the packages that import it, until it is told to go on.
const truthPackage = `package stapsdttruth

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"
	"unsafe"
)

var (
	mu   sync.Mutex
	out  *os.File
	left = 20_000
)

func init() {
	dir := os.Getenv("STAPSDT_TRUTH")
	if dir == "" {
		return
	}
	var err error
	if out, err = os.Create(fmt.Sprintf("%s/said.%d", dir, os.Getpid())); err != nil {
		panic(err)
	}
	for {
		if _, err := os.Stat(dir + "/go"); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Say says that a function was called with arguments, which are names and pointers to values. The last call ends
// the program.
func Say(probe string, args ...any) {
	if out == nil {
		return
	}
	said := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		flatten(said, args[i].(string), reflect.ValueOf(args[i+1]).Elem())
	}
	line, err := json.Marshal(map[string]any{"probe": probe, "args": said})
	mu.Lock()
	defer mu.Unlock()
	if err == nil {
		out.Write(append(line, '\n'))
	}
	if left--; left == 0 {
		os.Exit(0)
	}
}

func flatten(said map[string]any, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		said[name] = v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		said[name] = v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		said[name] = v.Uint()
	case reflect.String:
		said[name] = v.String()
	case reflect.Slice:
		said["len("+name+")"] = v.Len()
	case reflect.Interface:
		said[name] = nil
		if !v.IsNil() {
			said[name] = v.Elem().Type().String()
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i).Name; field != "_" {
				flatten(said, name+"."+field, v.Field(i))
			}
		}
	case reflect.Array:
		if v.Len() == 1 {
			flatten(said, name+"[0]", v.Index(0))
		}
	case reflect.Pointer, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		said[name] = fmt.Sprintf("%#x", *(*uintptr)(unsafe.Pointer(v.UnsafeAddr())))
	}
}
`

// instrument makes the functions of a module's packages say what they are called with.
func instrument(t *testing.T, dir, module string) (functions int) {
	t.Helper()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "stapsdttruth"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stapsdttruth", "truth.go"), []byte(truthPackage), 0o644))
	require.NoError(t, filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() {
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			if file != dir && (err == nil || name == "testdata" || name == "vendor" || name == "stapsdttruth" || strings.ContainsAny(name[:1], "._")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(dir, filepath.Dir(file))
		if err != nil {
			return err
		}
		n, err := instrumentFile(file, path.Join(module, relative), module+"/stapsdttruth")
		functions += n
		return err
	}))
	return functions
}

// instrumentFile changes the functions of a file. One that cannot be parsed or uses cgo stays as it is.
func instrumentFile(file, pkg, truth string) (functions int, err error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, source, parser.ParseComments)
	if err != nil || bytes.Contains(source, []byte(`import "C"`)) {
		return 0, nil
	}
	if tree.Name.Name == "main" {
		pkg = "main"
	}
	slash := strings.LastIndexByte(pkg, '/') + 1
	pkg = pkg[:slash] + strings.ReplaceAll(pkg[slash:], ".", "%2e")
	var changed bytes.Buffer
	last := 0
	insert := func(at token.Pos, text string) {
		offset := set.Position(at).Offset
		changed.Write(source[last:offset])
		changed.WriteString(text)
		last = offset
	}
	insert(tree.Name.End(), fmt.Sprintf("\nimport %q\n", truth))
	for _, d := range tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || fn.Type.TypeParams != nil || fn.Name.Name == "init" || fn.Name.Name == "_" || directive(fn) {
			continue
		}
		prefix, ok := receiver(fn)
		if !ok {
			continue
		}
		insert(fn.Pos(), "\n//go:noinline\n")
		insert(fn.Body.Lbrace+1, fmt.Sprintf(" stapsdttruth.Say(%q%s);", pkg+"."+prefix+fn.Name.Name, arguments(fn)))
		functions++
	}
	if functions == 0 {
		return 0, nil
	}
	changed.Write(source[last:])
	return functions, os.WriteFile(file, changed.Bytes(), 0o644)
}

// directive reports whether a function has one for the compiler.
func directive(fn *ast.FuncDecl) bool {
	if fn.Doc == nil {
		return false
	}
	for _, c := range fn.Doc.List {
		if strings.HasPrefix(c.Text, "//go:") {
			return true
		}
	}
	return false
}

// receiver returns what precedes the name of a method, or false for a generic one.
func receiver(fn *ast.FuncDecl) (prefix string, ok bool) {
	if fn.Recv == nil {
		return "", true
	}
	switch typ := ast.Unparen(fn.Recv.List[0].Type).(type) {
	case *ast.Ident:
		return typ.Name + ".", true
	case *ast.StarExpr:
		if name, ok := typ.X.(*ast.Ident); ok {
			return "(*" + name.Name + ").", true
		}
	}
	return "", false
}

// arguments returns the names of the parameters of a function, and pointers to them.
func arguments(fn *ast.FuncDecl) (text string) {
	var fields []*ast.Field
	if fn.Recv != nil {
		fields = fn.Recv.List
	}
	for _, f := range append(fields[:len(fields):len(fields)], fn.Type.Params.List...) {
		for _, name := range f.Names {
			if name.Name != "_" {
				text += fmt.Sprintf(", %q, &%s", name.Name, name.Name)
			}
		}
	}
	return text
}
