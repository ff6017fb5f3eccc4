// These tests build with and without cgo themselves, so that one build runs them.

//go:build cgo

package proxy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	repository = "../../.."
	root       = "github.com/go-stapsdt/stapsdt"
)

// version is the one that the nested modules require of the others.
func version(t *testing.T) string {
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	return regexp.MustCompile(`stapsdt/stapsdt (v\S+)`).FindStringSubmatch(string(mod))[1]
}

// committed returns a directory with the files that are committed.
func committed(t *testing.T) (dir string) {
	dir = t.TempDir()
	out, err := exec.Command("sh", "-ec", `git -C "$0" archive HEAD | tar -x -C "$1"`, repository, dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// modules returns the directories of the modules in the workspace of a repository.
func modules(t *testing.T, dir string) (all []string) {
	content, err := os.ReadFile(dir + "/go.work")
	require.NoError(t, err)
	work, err := modfile.ParseWork("go.work", content, nil)
	require.NoError(t, err)
	for _, use := range work.Use {
		all = append(all, filepath.Join(dir, use.Path))
	}
	require.Greater(t, len(all), 1)
	return all
}

// publish fills a directory with every module, in the layout of the module proxy protocol. It takes what is committed.
func publish(t *testing.T, to string) {
	for _, dir := range modules(t, committed(t)) {
		mod, err := os.ReadFile(dir + "/go.mod")
		require.NoError(t, err)
		m := module.Version{Path: modfile.ModulePath(mod), Version: version(t)}
		var archive bytes.Buffer
		require.NoError(t, zip.CreateFromDir(&archive, m, dir))
		at := filepath.Join(to, m.Path, "@v")
		require.NoError(t, os.MkdirAll(at, 0o755))
		for name, content := range map[string][]byte{
			"list":              []byte(m.Version + "\n"),
			m.Version + ".info": fmt.Appendf(nil, `{"Version": %q, "Time": "2026-01-01T00:00:00Z"}`, m.Version),
			m.Version + ".mod":  mod,
			m.Version + ".zip":  archive.Bytes(),
		} {
			require.NoError(t, os.WriteFile(filepath.Join(at, name), content, 0o644))
		}
	}
}

// newcomer is a user with an empty module cache, whose proxy is this repository's, and
// after it the cache of the tests.
type newcomer struct {
	t   *testing.T
	dir string
	env []string
}

func newNewcomer(t *testing.T) *newcomer {
	testenv.Long(t, "it builds with empty caches")
	_, err := os.Stat(repository + "/.git")
	testenv.Needs(t, "a checkout", err)
	files := t.TempDir()
	publish(t, files)
	cache, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	require.NoError(t, err)
	lines := strings.Fields(string(cache))
	n := &newcomer{t: t, dir: t.TempDir()}
	n.env = append(os.Environ(),
		"GOPROXY=file://"+files+",file://"+lines[0]+"/cache/download,"+lines[1],
		"GONOSUMDB="+root+","+root+"/*", "GOWORK=off", "GOFLAGS=-modcacherw",
		"GOMODCACHE="+n.dir+"/mod", "GOBIN="+n.dir+"/bin")
	return n
}

// run runs a command in the newcomer's directory.
func (n *newcomer) run(args ...string) {
	n.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = n.dir, n.env
	out, err := cmd.CombinedOutput()
	require.NoError(n.t, err, "%v: %s", args, out)
}

// TestGoGet: the program of the README, in a module of its own.
func TestGoGet(t *testing.T) {
	n := newNewcomer(t)
	readme, err := os.ReadFile(filepath.Join(repository, "README.md"))
	require.NoError(t, err)
	program := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)[1]
	require.NoError(t, os.WriteFile(n.dir+"/main.go", program, 0o644))
	n.run("go", "mod", "init", "example.com/myapp")
	n.run("go", "get", root+"@"+version(t))
	n.run("go", "build", "-o", "myapp", ".")
	n.run("env", "CGO_ENABLED=0", "go", "build", "-o", "myapp", ".")
	// Its only dependency is x/sys.
	mod, err := os.ReadFile(n.dir + "/go.mod")
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(mod), " v"), "%s", mod)
	n.run("go", "mod", "tidy")
	n.run("env", "GOFLAGS=-modcacherw -mod=readonly", "go", "test", ".")
}

// TestTidy: go.mod and go.sum of every module are what go mod tidy writes, without the
// workspace. Sums of our own modules are missing until they are published.
func TestTidy(t *testing.T) {
	n := newNewcomer(t)
	own := regexp.MustCompile(`^\+` + regexp.QuoteMeta(root) + `\S* v\S+ h1:|^\+` + regexp.QuoteMeta(root) + `\S* v\S+/go\.mod h1:`)
	work := committed(t)
	for _, dir := range modules(t, work) {
		t.Run(strings.TrimPrefix(dir, work), func(t *testing.T) {
			cmd := exec.Command("go", "mod", "tidy", "-diff")
			cmd.Dir, cmd.Env = dir, n.env
			var said bytes.Buffer
			cmd.Stderr = &said
			diff, err := cmd.Output()
			if err != nil {
				require.NotEmpty(t, diff, "%s", said.Bytes()) // and the status is 1
			}
			var other []string
			for line := range strings.Lines(string(diff)) {
				changed := line[0] == '+' || line[0] == '-'
				if changed && !strings.HasPrefix(line, "+++") && !strings.HasPrefix(line, "---") && !own.MatchString(line) {
					other = append(other, line)
				}
			}
			require.Empty(t, other)
		})
	}
}

// TestModules: each module and its tests build without the workspace, from an empty module cache, and
// go.mod and go.sum have all that this takes. The other modules of this repository, which may not be
// published yet, are those beside it.
func TestModules(t *testing.T) {
	n := newNewcomer(t)
	n.env = append(n.env, "GOFLAGS=-modcacherw -mod=readonly")
	n.dir = committed(t)
	all := modules(t, n.dir)
	require.NoError(t, os.Remove(n.dir+"/go.work"))
	for _, dir := range all {
		for _, other := range all {
			if other != dir {
				path := filepath.ToSlash(filepath.Join(root, strings.TrimPrefix(other, n.dir)))
				n.run("go", "mod", "edit", "-replace", path+"="+other, dir+"/go.mod")
			}
		}
	}
	for _, dir := range all {
		t.Run(strings.TrimPrefix(dir, n.dir), func(t *testing.T) {
			in := &newcomer{t: t, dir: dir, env: n.env}
			in.run("go", "build", "./...")
			in.run("go", "vet", "./...")
		})
	}
}

// TestGoInstall: the commands of nested modules, which replace directives would prevent.
func TestGoInstall(t *testing.T) {
	n := newNewcomer(t)
	for _, command := range []string{"examples/hello", "examples/http", "examples/lua", "examples/wasm", "cmd/stapsdt"} {
		n.run("go", "install", root+"/"+command+"@"+version(t))
		require.FileExists(t, n.dir+"/bin/"+filepath.Base(command))
	}
}
