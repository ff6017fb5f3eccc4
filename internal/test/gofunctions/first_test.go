//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// brief is a program that calls work as often as its argument says, and prints the sum of the
// results. Its first call is in an initializer, before main.
const brief = `package main

import (
	"fmt"
	"os"
	"strconv"
)

type job struct{ id int }

//go:noinline
func work(j *job, name string) int {
	if name == "" { return j.id }
	return j.id * 2
}

var first = work(&job{1}, "first")

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	sum := first
	for i := 1; i < n; i++ { sum += work(&job{i}, strconv.Itoa(i)) }
	fmt.Println("sum", sum)
	os.Exit(n % 5)
}
`

// runs returns how often a test runs a program.
func runs() int {
	if testing.Short() {
		return 10
	}
	return 100
}

// attached reports that a command that was started with -v has attached to the files that it names.
var attached = regexp.MustCompile(`^stapsdt: \d+ probes? of 1 file`)

// TestFile: each call of a program that starts and ends while its file is traced is seen, from the first
// on, with its arguments and its goroutine.
func TestFile(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, brief, nil)
	c := tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-v", "-o", "json", path+":go:main.work"))
	c.WaitSaid(attached, testenv.Patience)
	const calls = 20
	for range runs() {
		out, err := exec.Command(path, fmt.Sprint(calls)).Output()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("sum %d\n", 2+calls*(calls-1)), string(out))
	}
	c.Signal(os.Interrupt)
	require.NoError(t, c.Wait(testenv.Patience))
	seen := map[int][]any{}
	for _, line := range c.Lines() {
		var e struct {
			PID, Goroutine int
			Args           map[string]any
		}
		if line[0] == '{' {
			objects.Decode(t, line, &e)
			assert.Equal(t, 1, e.Goroutine, line)
			seen[e.PID] = append(seen[e.PID], e.Args["name"])
		}
	}
	want := []any{"first"}
	for i := 1; i < calls; i++ {
		want = append(want, fmt.Sprint(i))
	}
	require.Len(t, seen, runs())
	for pid, names := range seen {
		require.Equal(t, want, names, pid)
	}
}

// TestLaunched: each call of a command that stapsdt starts is counted, from the first on, and its status
// is passed on: of the program itself, of one that a shell starts, and of a library that is loaded later.
func TestLaunched(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, brief, nil)
	const calls = 21
	twice := fmt.Sprintf("%s %d; exec %s %d", path, calls, path, calls)
	library := filepath.Join(filepath.Dir(path), "brief.so")
	for _, c := range []struct {
		name, file string
		command    []string
		count      int
	}{
		{"program", "", []string{path, fmt.Sprint(calls)}, calls},
		{"named", path + ":", []string{path, fmt.Sprint(calls)}, calls},
		{"shell", path + ":", []string{"sh", "-c", twice}, 2 * calls},
		{"library", library + ":", []string{loads(t, library), fmt.Sprint(calls)}, calls},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"count", "-o", "json", c.file + "go:main.work", "--"}, c.command...)
			for range runs() {
				out, err := exec.Command(stapsdt(t), args...).Output()
				var ended *exec.ExitError
				require.ErrorAs(t, err, &ended, "%s", out)
				require.Equal(t, calls%5, ended.ExitCode(), "%s%s", out, ended.Stderr)
				_, objects, counted := strings.Cut(string(out), "{")
				require.True(t, counted, "%s%s", out, ended.Stderr)
				all := rows(t, []string{"{" + strings.TrimSpace(objects)})
				require.Len(t, all, 1, "%s", out)
				require.Equal(t, c.count, all[0].Count, "%s", out)
			}
		})
	}
}

// TestNotLaunched: a command is not run if its own program is in Go and a function cannot be attached
// to. Otherwise its children may have the function, until it ends.
func TestNotLaunched(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, brief, nil)
	shell := fmt.Sprintf("%s 20", path)
	for _, c := range []struct {
		says    string
		runs    bool
		args    []string
		command []string
	}{
		{`\* matches too many functions: \d+, but at most 500 can be selected: `, false, []string{"go:*"}, []string{path, "20"}},
		{`there is no function main\.wrok, .*there is main\.work.*; to wait for it in the programs that the COMMAND starts, give --wait`, false,
			[]string{"go:main.wrok"}, []string{path, "20"}},
		{`there is no function main\.wrok`, false, []string{"go:main.work", "go:main.wrok"}, []string{path, "20"}},
		{`nothing was ever attached to, because no process had go:main\.wrok`, true, []string{"--wait", "go:main.wrok"}, []string{path, "20"}},
		{`nothing was ever attached to, because no process had go:main\.wrok`, true, []string{"go:main.wrok"}, []string{"sh", "-c", shell}},
	} {
		r := exec.Command(stapsdt(t), slices.Concat([]string{"count"}, c.args, []string{"--"}, c.command)...)
		out, err := r.CombinedOutput()
		require.Error(t, err)
		assert.Equal(t, 3, r.ProcessState.ExitCode(), "%s", out)
		assert.Regexp(t, c.says, string(out))
		assert.Equal(t, c.runs, strings.Contains(string(out), "sum "), "%s", out)
	}
}

// TestLate: of a command whose only program with the function has ended before it was attached to,
// nothing was traced. How long that takes depends on the machine, so programs of several ages are
// tried until one of them has ended then.
func TestLate(t *testing.T) {
	testenv.NeedsRoot(t)
	source := strings.Replace(brief, `"strconv"`, `"strconv"
	"time"`, 1)
	path := build(t, strings.Replace(source, "os.Exit(n % 5)", `if len(os.Args) > 2 {
		wait, _ := time.ParseDuration(os.Args[2])
		time.Sleep(wait)
	}`, 1), nil)
	for i := range 100 {
		shell := fmt.Sprintf("%s 20 %dms", path, i%20*10)
		r := exec.Command(stapsdt(t), "count", "go:main.work", "--", "sh", "-c", shell)
		out, _ := r.CombinedOutput()
		if !strings.Contains(string(out), "1 of the processes ended before their probes were attached to") {
			continue
		}
		require.Equal(t, 3, r.ProcessState.ExitCode(), "%s", out)
		require.Contains(t, string(out), "nothing was attached to in time", "%s", out)
		return
	}
	t.Fatal("each program was attached to, or had ended before it was found")
}

// loads builds a library from the program brief, and a program in C that loads it and calls its main.
func loads(t *testing.T, library string) (program string) {
	gcc := testenv.NeedsTool(t, "gcc", "gcc")
	source := strings.NewReplacer(
		"func main() {\n", "func main() {}\n\n//export Run\nfunc Run(n int) {\n",
		"n, _ := strconv.Atoi(os.Args[1])", "",
		"import (", "import \"C\"\nimport (",
	).Replace(brief)
	built := tracetest.BuildFiles(t, map[string]string{"main.go": source, "go.mod": "module generated\n\ngo 1.22\n"},
		[]string{"CGO_ENABLED=1"}, "-buildmode=c-shared")
	require.NoError(t, os.Rename(built, library))
	program = filepath.Join(filepath.Dir(library), "loads")
	cmd := exec.Command(gcc, "-x", "c", "-o", program, "-", "-ldl")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`#include <dlfcn.h>
#include <stdlib.h>
int main(int count, char **args) {
	void *library = dlopen(%q, RTLD_NOW);
	((void (*)(long))dlsym(library, "Run"))(atol(args[1]));
	return 9;
}`, library))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// TestLaterFile: --wait waits for a file that does not exist yet, and for a function that it gets later.
func TestLaterFile(t *testing.T) {
	testenv.NeedsRoot(t)
	without, with := build(t, served, nil), build(t, brief, nil)
	path := filepath.Join(t.TempDir(), "program")
	c := tracetest.Command(t, exec.Command(stapsdt(t), "trace", "--wait", "-n", "3", "-o", "json", path+":go:main.work"))
	c.WaitSaid(regexp.MustCompile(`no file has .*:go:main\.work yet; waiting for one`), testenv.Patience)
	for _, file := range []string{without, with} {
		replace(t, file, path)
		require.NoError(t, exec.Command(path, "0").Run())
	}
	// The second program may have ended before the file was attached to.
	for end := time.Now().Add(testenv.Patience); !c.Ended() && time.Now().Before(end); {
		_ = exec.Command(path, "10").Run()
	}
	require.NoError(t, c.Wait(testenv.Patience))
	require.Len(t, c.Lines(), 3)
	for _, line := range c.Lines() {
		assert.Equal(t, "main.work", decode(t, line).Probe)
	}
}

// TestCalled: -a with a name in -p traces the functions of every process of this name, also of those that
// start later, and of what they start, and no others.
func TestCalled(t *testing.T) {
	testenv.NeedsRoot(t)
	source := `package main

import "time"

//go:noinline
func work(n int) int { return n * 2 }

func main() {
	for n := 0; ; n = work(n) { time.Sleep(time.Millisecond) }
}
`
	built := build(t, source, nil)
	start := func(path string) *subject {
		replace(t, built, path)
		return launch(t, path)
	}
	name := fmt.Sprintf("called-%d", os.Getpid())
	first, other := start(filepath.Join(t.TempDir(), name)), start(filepath.Join(t.TempDir(), "other"))
	c := tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-o", "json", "-a", "-p", name[:len(name)-1]+"?", "go:main.work"))
	c.WaitLine(fmt.Sprintf(`"pid":%d,`, first.PID()), testenv.Patience)
	second := start(filepath.Join(t.TempDir(), name)) // another file
	c.WaitLine(fmt.Sprintf(`"pid":%d,`, second.PID()), testenv.Patience)
	third := launch(t, second.path)
	c.WaitLine(fmt.Sprintf(`"pid":%d,`, third.PID()), testenv.Patience)
	c.Signal(os.Interrupt)
	require.NoError(t, c.Wait(testenv.Patience))
	assert.NotContains(t, strings.Join(c.Lines(), "\n"), fmt.Sprintf(`"pid":%d,`, other.PID()))
}

// replace puts a copy of a file in the place of another.
func replace(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to+".new", content, 0o700))
	require.NoError(t, os.Rename(to+".new", to))
}
