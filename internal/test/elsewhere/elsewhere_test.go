package elsewhere

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
	"golang.org/x/tools/go/analysis/passes/framepointer"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/packages"
)

const (
	module     = "github.com/go-stapsdt/stapsdt"
	repository = "../../.."
)

// TestTypes checks our packages from their sources, and what go vet looks for in what differs elsewhere. Compiling them, with the standard library for each system, would take a
// hundred times as long. Workflows build and run them.
func TestTypes(t *testing.T) {
	library := []string{module, module + "/internal/...", module + "/probeenv", module + "/debugprobe"}
	for system, patterns := range map[string][]string{
		"linux/arm64":   {module + "/...", module + "/cmd/stapsdt/..."},
		"linux/loong64": {module + "/..."},
		"darwin/arm64":  append(library, module+"/cmd/stapsdt"),
		"windows/amd64": append(library, module+"/cmd/stapsdt"),
	} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			goos, goarch, _ := strings.Cut(system, "/")
			got := load(t, []string{"GOOS=" + goos, "GOARCH=" + goarch}, patterns...)
			require.Empty(t, got.errors)
			require.Greater(t, len(got.packages), 30)
			require.Empty(t, got.findings(t))
		})
	}
}

// TestError: a mistake in the body of a function of one architecture is found.
func TestError(t *testing.T) {
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module " + module + "/wrong\n\ngo 1.25\n",
		"p.go":        "package wrong\n\nimport \"fmt\"\n\nfunc F() { fmt.Println() }\n",
		"p_s390x.go":  "package wrong\n\nfunc G() { _ = 1 + \"text\" }\n",
		"p_test.go":   "package wrong\n",
		"q_darwin.go": "package wrong\n\nvar x missing\n",
		"r_arm64.go":  "package wrong\n\nfunc H(n int32) int64\n",
		"r_arm64.s":   "TEXT \u00b7H(SB), 4, $0-12\n\tMOVD n+0(FP), R0\n\tRET\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	require.Empty(t, load(t, []string{"GOARCH=amd64"}, "./...").errors)
	require.Len(t, load(t, []string{"GOARCH=s390x"}, "./...").errors, 1)
	require.Len(t, load(t, []string{"GOOS=darwin", "GOARCH=amd64"}, "./...").errors, 1)
	arm64 := load(t, []string{"GOARCH=arm64"}, "./...")
	require.Empty(t, arm64.errors)
	require.Len(t, arm64.findings(t), 2, "the size of the arguments, and a result that is not written")
}

// result has the packages of this repository, and the errors in them. It leaves out the harnesses, which are for Linux.
type result struct {
	packages []*packages.Package
	errors   []packages.Error
}

// analyzers are those of go vet for assembly and addresses.
var analyzers = []*analysis.Analyzer{asmdecl.Analyzer, framepointer.Analyzer, unsafeptr.Analyzer}

// findings returns what the analyzers say of the packages.
func (r result) findings(t *testing.T) (all []string) {
	t.Helper()
	graph, err := checker.Analyze(analyzers, r.packages, nil)
	require.NoError(t, err)
	for _, action := range graph.Roots {
		require.NoError(t, action.Err)
		for _, d := range action.Diagnostics {
			all = append(all, action.Package.Fset.Position(d.Pos).String()+": "+d.Message)
		}
	}
	return all
}

// parsed has the files of all systems, most of which they have in common.
var parsed = trees{set: token.NewFileSet()}

// trees parses each file once.
type trees struct {
	set   *token.FileSet
	files sync.Map // by name: func() (*ast.File, error)
}

// file parses a file. The bodies of other people's functions are as they were published, and are left out.
func (t *trees) file(name string, source []byte, ours bool) (*ast.File, error) {
	parse, _ := t.files.LoadOrStore(name, sync.OnceValues(func() (*ast.File, error) {
		file, err := parser.ParseFile(t.set, name, source, parser.SkipObjectResolution)
		if file != nil && !ours {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					f.Body = nil
				}
			}
		}
		return file, err
	}))
	return parse.(func() (*ast.File, error))()
}

// load checks the packages, without their tests, in an environment.
func load(t *testing.T, env []string, patterns ...string) (r result) {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	if filepath.Base(root) == "elsewhere" {
		root = filepath.Join(root, repository)
	}
	config := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedSyntax | packages.NeedTypesSizes,
		Dir:  root,
		Env:  append(append(os.Environ(), "CGO_ENABLED=0"), env...),
		Fset: parsed.set,
		ParseFile: func(_ *token.FileSet, name string, source []byte) (*ast.File, error) {
			return parsed.file(name, source, strings.HasPrefix(name, root+string(filepath.Separator)))
		},
	}
	all, err := packages.Load(config, patterns...)
	require.NoError(t, err)
	packages.Visit(all, nil, func(p *packages.Package) {
		if strings.HasPrefix(p.PkgPath, module) && !strings.HasPrefix(p.PkgPath, module+"/internal/test") {
			r.packages, r.errors = append(r.packages, p), append(r.errors, p.Errors...)
			p.IllTyped = len(p.Errors) > 0 // and not for the bodies that its dependencies lack
		}
	})
	return r
}
