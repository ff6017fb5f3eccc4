// These tests build with and without cgo themselves, so that one build runs them.

//go:build cgo

package proxy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

const (
	repository = "../../.."
	root       = "github.com/go-stapsdt/stapsdt"
)

// version is the one that the nested modules require of the others.
func version(t *testing.T) string {
	v, err := Version(repository)
	require.NoError(t, err)
	return v
}

// checkedOut returns a directory with the files that are committed, and those of its modules.
func checkedOut(t *testing.T) (dir string, all []string) {
	dir = t.TempDir()
	require.NoError(t, committed(repository, dir))
	all, err := modules(dir)
	require.NoError(t, err)
	require.Greater(t, len(all), 1)
	return dir, all
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
	require.NoError(t, Publish(repository, files))
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
	work, all := checkedOut(t)
	for _, dir := range all {
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
	var all []string
	n.dir, all = checkedOut(t)
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
