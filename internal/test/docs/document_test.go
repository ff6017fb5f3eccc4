//go:build linux && (amd64 || arm64)

package docs_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// repository returns the root of this repository.
func repository(t *testing.T) string {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	return root
}

// needs skips a test that cannot follow a document here, or takes long. A tool is its name, or its name
// and its package: "pgrep=procps".
func needs(t *testing.T, tools ...string) {
	testenv.Long(t, "it builds programs and attaches many tracers")
	needsTracers(t, tools...)
}

// needsTracers is needs for a test that runs in the gate, too.
func needsTracers(t *testing.T, tools ...string) {
	tracetest.NeedTracefs(t)
	for _, tool := range append(tools, "bpftrace", "pgrep=procps") {
		name, pkg, _ := strings.Cut(tool, "=")
		testenv.NeedsTool(t, name, cmp.Or(pkg, name))
	}
}

// document is a README. Its commands run in a directory.
type document struct {
	dir   string
	lines []string // the indented lines, which are commands and output
	// replace puts the values of this run in place of what a reader replaces, such as PID.
	replace *strings.Replacer
}

// read reads the README of a directory, where its commands will run.
func read(t *testing.T, dir string) *document {
	text, err := os.ReadFile(dir + "/README.md")
	require.NoError(t, err)
	d := &document{dir: dir, replace: strings.NewReplacer()}
	for line := range strings.Lines(string(text)) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			d.lines = append(d.lines, strings.TrimSpace(code))
		}
	}
	return d
}

// example reads the README of an example that leaves no files behind.
func example(t *testing.T, name string) *document {
	return read(t, repository(t)+"/examples/"+name)
}

// module copies an example that is a module, because its commands leave files behind, and
// reads its README. The copy is outside the workspace, and has the scripts for every language
// beside it.
func module(t *testing.T, name string) *document {
	root, dir := repository(t), t.TempDir()+"/"+name
	require.NoError(t, os.CopyFS(dir, os.DirFS(root+"/examples/"+name)))
	require.NoError(t, os.CopyFS(filepath.Dir(dir)+"/scripts", os.DirFS(root+"/examples/scripts")))
	const path = "github.com/go-stapsdt/stapsdt"
	d := read(t, dir)
	d.run(t, fmt.Sprintf("go mod edit -replace %s=%s -replace %[1]s/internal/test=%[2]s/internal/test", path, root))
	return d
}

var comment = regexp.MustCompile(`  +# .*`)

// command returns the lines that begin with a match of the pattern, without comments.
func (d *document) command(t *testing.T, pattern string) string {
	t.Helper()
	begins := regexp.MustCompile(`^(?:` + pattern + `)`)
	var found []string
	for _, line := range d.lines {
		if begins.MatchString(line) {
			found = append(found, d.replace.Replace(comment.ReplaceAllString(line, "")))
		}
	}
	require.NotEmpty(t, found, "README.md has no line that begins with %s", pattern)
	return strings.Join(found, "\n")
}

// run runs a command to its end, which must be a good one, and returns its output.
func (d *document) run(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.Command("bash", "-ec", command)
	cmd.Dir = d.dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, out)
	return string(out)
}

// start starts a program that runs until the test ends. What it prints on standard error
// is in its standard output.
func (d *document) start(t *testing.T, command string) *tracetest.Process {
	t.Helper()
	return startGroup(t, d.dir, "exec 2>&1; exec "+command)
}

// build fills the build cache, so that go run starts the program soon.
func (d *document) build(t *testing.T) {
	t.Helper()
	d.run(t, "go build -o /dev/null .")
}

var (
	imageName = regexp.MustCompile(`/[^ ]*/(hello-)[0-9a-f]*`)
	number    = regexp.MustCompile(`[0-9]+`)
	bar       = regexp.MustCompile(`@+`)
	spaces    = regexp.MustCompile(`  +`)
)

// shape returns a line without what differs from run to run.
func shape(line string) string {
	line = imageName.ReplaceAllString(strings.TrimSpace(line), "/$1")
	line = number.ReplaceAllString(line, "1")
	return spaces.ReplaceAllString(bar.ReplaceAllString(line, "@"), "  ")
}

// requireShown requires that the document shows these lines, but for numbers.
func (d *document) requireShown(t *testing.T, lines []string) {
	t.Helper()
	var shown []string
	for _, line := range d.lines {
		shown = append(shown, shape(line))
	}
	printed := 0
	for _, line := range lines {
		if line = shape(line); line == "" {
			continue
		}
		printed++
		require.True(t, slices.Contains(shown, line), "README.md does not show: %s", line)
	}
	require.NotZero(t, printed, "it printed nothing")
}

var flowLine = regexp.MustCompile(`^[0-9]+ ([0-9]+ [0-9]+ (?:->|<-) .*\))$`)

// requireFlow requires that a flow of calls begins as the document shows, but for the time.
func (d *document) requireFlow(t *testing.T, lines []string) {
	t.Helper()
	calls := func(lines []string) (calls []string) {
		for _, line := range lines {
			if m := flowLine.FindStringSubmatch(line); m != nil && !strings.Contains(line, " ready ") {
				calls = append(calls, m[1])
			}
		}
		return calls
	}
	want, got := calls(d.lines), calls(lines)
	require.NotEmpty(t, want)
	require.GreaterOrEqual(t, len(got), len(want), "%q", got)
	require.Equal(t, want, got[:len(want)])
}
