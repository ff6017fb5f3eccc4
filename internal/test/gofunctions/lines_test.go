//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counted is a program that counts how often its statements are executed. Each line that is traced ends with a comment that has the
// name of its counter. A header of a loop is executed once for each time that the condition is evaluated.
const counted = `package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

var (
	executed = map[string]int{}
	mu       sync.Mutex
	sink     int
)

//go:noinline
func did(name string) {
	mu.Lock()
	executed[name]++
	mu.Unlock()
}

//go:noinline
func odd(i int) bool { return i%2 == 1 }

//go:noinline
func twice(i int) int { return 2 * i }

//go:noinline
func branches(n int) {
	for i := 0; i < n; i++ { //@ for
		did("for")
		did("if")
		if i%3 == 0 && !odd(i) || i == 7 { //@ if
			did("then")
			sink += i //@ then
		} else if did("elseif"); odd(i) { //@ elseif
			did("else")
			sink -= twice(twice(i)) + twice(1) //@ else
		}
	}
	did("for")
}

//go:noinline
func ranges(all []int, names map[string]int) {
	for i, v := range all {
		did("range")
		sink += v * i //@ range
	}
	for name, v := range names {
		did("map")
		sink += len(name) + twice(v) //@ map
	}
	for i := range len(all) {
		did("int")
		sink ^= twice(i) //@ int
	}
}

//go:noinline
func switches(n int) {
	for i := range n {
		switch i % 12 {
		case 0:
			did("case0")
			sink += twice(i) //@ case0
		case 1:
			did("case1")
			sink += twice(i) + twice(2) //@ case1
		case 2:
			sink -= twice(i)
		case 3:
			sink -= twice(i) * 3
		case 4:
			sink -= twice(i) * 5
		case 5:
			did("case5")
			sink -= twice(twice(i)) //@ case5
			fallthrough
		case 6:
			did("case6")
			sink ^= twice(i) //@ case6
		case 7:
			sink -= twice(i) * 7
		case 8:
			sink -= twice(i) * 9
		case 9:
			sink -= twice(i) * 11
		default:
			did("default")
			sink += twice(1) + twice(i) //@ default
		}
	}
}

//go:noinline
func kinds(all ...any) {
	for _, v := range all {
		did("type")
		switch v := v.(type) { //@ type
		case int:
			did("isint")
			sink += twice(v) //@ isint
		case string:
			did("isstring")
			sink += twice(len(v)) //@ isstring
		}
	}
}

//go:noinline
func selects(n int) {
	a, b := make(chan int, 1), make(chan string, 1)
	for i := range n {
		if odd(i) {
			a <- i
		} else {
			b <- "x"
		}
		did("select")
		select { //@ select
		case v := <-a:
			did("received")
			sink += twice(v) //@ received
		case s := <-b:
			did("other")
			sink += twice(len(s)) //@ other
		}
	}
}

//go:noinline
func defers(n int) (err error) {
	did("defer")
	defer did("deferred") //@ defer
	if odd(n) {
		did("maybe")
		defer twice(1) //@ maybe
	}
	defer func() {
		did("closure")
		sink += twice(n) //@ closure
		if v := recover(); v != nil {
			did("recovered")
			err = fmt.Errorf("%v %d", v, twice(n)) //@ recovered
		}
	}()
	if n%3 == 0 {
		did("panic")
		panic(errors.New("it is three")) //@ panic
	}
	did("return")
	return nil //@ return
}

func small(i int) int {
	did("small")
	return twice(i) + 1 //@ small
}

func generic[T any](v T, of func(T) int) int {
	did("generic")
	n := of(v) + twice(1) //@ generic
	return n
}

//go:noinline
func inlines(n int) {
	for i := range n {
		sink += small(i)
		sink -= small(i + 1)
	}
	sink += generic(n, func(n int) int { return n })
	sink += generic("text", func(s string) int { return len(s) })
	sink += generic([]int{1}, func(all []int) int { return len(all) })
}

//go:noinline
func grows(n int) int {
	var large [128]int
	large[n%128] = twice(n)
	did("grows")
	if n == 0 { //@ grows
		return large[0]
	}
	did("deeper")
	sum := grows(n-1) + large[(n+1)%128] //@ deeper
	return sum + large[n%128]
}

func main() {
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	branches(20)
	ranges([]int{3, 4, 5}, map[string]int{"a": 1, "b": 2})
	switches(50)
	kinds(1, "text", 2.5, 3)
	selects(9)
	for i := range 10 {
		_ = defers(i)
	}
	inlines(5)
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			grows(200)
		}()
	}
	all.Wait()
	out, _ := json.Marshal(executed)
	fmt.Println(string(out))
	_, _ = in.ReadString('\n')
}
`

// linesOf returns the lines of a source that end with the comment "//@ NAME", by the names.
func linesOf(source string) map[string]int {
	lines := map[string]int{}
	for i, line := range strings.Split(source, "\n") {
		if _, name, ok := strings.Cut(line, "//@ "); ok {
			lines[name] = i + 1
		}
	}
	return lines
}

// requireExecutions counts lines of a program, and requires one event for each time that the program says it has executed them. At
// least a number of lines must have code, and have been executed.
func requireExecutions(t *testing.T, path string, lines map[string]int, least int) {
	t.Helper()
	s := launch(t, path)
	has := map[string]bool{}
	for _, p := range s.list("go:main.go:1-100000") {
		has["go:"+p.Probe] = true
	}
	names := map[string]string{}
	var specs []string
	for name, line := range lines {
		if spec := fmt.Sprintf("go:main.go:%d", line); has[spec] {
			names[strings.TrimPrefix(spec, "go:")] = name
			specs = append(specs, spec)
		}
	}
	c := s.command(specs, append([]string{"count", "-n", "0", "-o", "json", "--budget", "100%"}, specs...)...)
	s.Say("")
	said, got := map[string]int{}, map[string]int{}
	require.NoError(t, json.Unmarshal([]byte("{"+s.Expect("{", testenv.Patience)), &said))
	for _, r := range rows(t, stop(t, c)) {
		got[names[r.Probe]] += r.Count
	}
	executed := 0
	for _, name := range names {
		if assert.Equal(t, said[name], got[name], "the line of %s, %d", name, lines[name]); said[name] > 0 {
			executed++
		}
	}
	require.GreaterOrEqual(t, executed, least)
}

// TestLines: a line has one event for each execution of its statement.
func TestLines(t *testing.T) {
	testenv.NeedsRoot(t)
	lines := linesOf(counted)
	for name, flags := range map[string][]string{
		"plain": nil, "PIE": {"-buildmode=pie"}, "trimpath": {"-trimpath"},
		"unoptimized": {"-gcflags=all=-N -l"},
	} {
		t.Run(name, func(t *testing.T) {
			requireExecutions(t, build(t, counted, nil, flags...), lines, len(lines))
		})
	}
}

// TestLargeFile: a line of a file with a hundred thousand others, as generators write it, is found, and so are its neighbors.
func TestLargeFile(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Long(t, "it compiles 150,000 lines")
	var source strings.Builder
	source.WriteString("package main\n\nvar sink int\n\nfunc main() {\n\tfor i := range 3 {\n\t\tall[700](i)\n\t}\n}\n\nvar all = [...]func(int){\n")
	for i := range 1500 {
		fmt.Fprintf(&source, "\tf%d,\n", i)
	}
	source.WriteString("}\n")
	for i := range 1500 {
		fmt.Fprintf(&source, "\n//go:noinline\nfunc f%d(n int) {\n", i)
		for j := range 100 {
			fmt.Fprintf(&source, "\tsink += n * %d\n", i+j+3)
		}
		source.WriteString("}\n")
	}
	path := build(t, source.String(), nil)
	out, err := exec.Command(stapsdt(t), "list", path, "go:main.go:1-200000").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "main.go:1-200000 has more than 131072 parts of code")
	all := strings.Split(source.String(), "\n")
	line := slices.Index(all, "func f700(n int) {") + 51
	out, err = exec.Command(stapsdt(t), "count", "-o", "json", fmt.Sprintf("go:main.go:%d", line), "--", path).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), `"count":3`)
	out, err = exec.Command(stapsdt(t), "list", path, fmt.Sprintf("go:main.go:%d", line+52)).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), fmt.Sprintf("the nearest lines with one are %d and ", line+51))
}

// TestStrippedLines: without DWARF there are lines, and a warning that their statements are not known.
func TestStrippedLines(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, counted, nil, "-ldflags=-s -w")
	lines := linesOf(counted)
	s := launch(t, path)
	spec := fmt.Sprintf("go:main.go:%d", lines["small"])
	c := s.command([]string{spec}, "count", "-o", "json", spec)
	s.Say("")
	said := map[string]int{}
	require.NoError(t, json.Unmarshal([]byte("{"+s.Expect("{", testenv.Patience)), &said))
	all := rows(t, stop(t, c))
	require.Len(t, all, 1)
	require.Equal(t, said["small"], all[0].Count)
	require.Contains(t, c.Dump(), "without DWARF it is unknown where a statement begins")
	out, err := exec.Command(stapsdt(t), "count", spec, "-w", "i > 0", "-p", fmt.Sprint(s.PID())).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "has no arguments: without DWARF, variables at lines are not read")
}

// TestLineVerbs: the verbs take lines as they take functions, and say what they cannot do with them.
func TestLineVerbs(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, counted, nil)
	lines := linesOf(counted)
	line := func(name string) string { return fmt.Sprintf("go:main.go:%d", lines[name]) }
	run := func(specs []string, args ...string) []string {
		s := launch(t, path)
		c := s.command(specs, append(args, "--budget", "100%")...) // the lines are in loops
		s.Say("")
		s.Expect("{", testenv.Patience)
		return stop(t, c)
	}
	all := run([]string{line("panic")}, "trace", "-o", "json", line("panic"))
	require.Len(t, all, 4)
	for _, event := range all {
		var e struct {
			Probe     string
			Goroutine int
		}
		objects.Decode(t, event, &e)
		require.Equal(t, strings.TrimPrefix(line("panic"), "go:"), e.Probe)
		require.Equal(t, 1, e.Goroutine)
	}
	stacks := strings.Join(run([]string{line("panic")}, "stack", "-o", "json", line("panic")), "\n")
	require.Contains(t, stacks, `"function":"main.defers"`)
	require.Contains(t, stacks, `"function":"main.main"`)
	pair := []string{line("grows"), line("deeper")}
	counts := rows(t, run(pair, append([]string{"latency", "-o", "json"}, pair...)...))
	require.NotEmpty(t, counts)
	require.Equal(t, 4*200, counts[0].Count)
	requireOperations(t, fmt.Sprintf("go:main.go:%d-%d", lines["grows"], lines["deeper"]), 4*200, pair, func(args ...string) []string {
		return run(pair, append(args, pair...)...)
	})

	for args, message := range map[string]string{
		"latency " + line("if"):                 "a line has no end: give a second SPEC",
		"top " + line("if"):                     "a line has no end: give a second SPEC",
		"tree " + line("if"):                    "a line has no end: give a second SPEC",
		"tree " + line("if") + " go:main.main":  "selects no functions, but other SPECs do",
		"trace " + line("if") + " --show i":     "i may be old there (reassigned): unsure(i) accepts that",
		"trace go:main.go:30-31":                "has several lines, which only list takes",
		"count " + line("if") + ":return":       "lines have no returns",
		"trace go:nothing.go:3":                 "the program has no file nothing.go with code",
		"trace go:main.go:3":                    "no statement begins at main.go:3; the nearest line with one is ",
		"trace go:proc.go:9":                    "proc.go is 2 files, give more of the path of one",
		"trace go:main.branches:1":              "no statement begins at main.branches:1; the nearest line with one is ",
		"trace go:main.brunches:1":              "there is main.branches",
		"script " + line("if"):                  "selects functions",
		"trace " + line("if") + " --via socket": "a function in a SPEC",
		"count " + line("if") + " --where i>0":  "i may be old there (reassigned)",
	} {
		s := launch(t, path)
		words := append(strings.Fields(args), "-p", fmt.Sprint(s.PID()))
		out, err := exec.Command(stapsdt(t), words...).CombinedOutput()
		assert.Error(t, err, args)
		assert.Contains(t, string(out), message, args)
		assert.NotContains(t, string(out), "panic:", args)
	}
}

// requireOperations requires that top and tree have count operations of a name between two lines, and that a recording is read by another key.
func requireOperations(t *testing.T, name string, count int, pair []string, run func(args ...string) []string) {
	t.Helper()
	top := func(lines []string) {
		var screen struct {
			Operations []struct {
				Operation string
				Count     int
			}
		}
		objects.Decode(t, lines[len(lines)-1], &screen)
		require.Len(t, screen.Operations, 1)
		require.Equal(t, name, screen.Operations[0].Operation)
		require.Equal(t, count, screen.Operations[0].Count)
	}
	tree := func(lines []string) {
		require.Len(t, lines, count)
		for _, line := range lines {
			require.Contains(t, line, fmt.Sprintf(`"operation":%q`, name))
		}
	}
	top(run("top", "-o", "json", "-i", "1h"))
	tree(run("tree", "-o", "json"))
	require.Len(t, run("tree", "-o", "json", "--slowest", "3", "-w", "elapsed > 0s"), 3)

	// A recording of the kernel's events has no goroutines.
	recorded := filepath.Join(t.TempDir(), "recorded")
	run("record", "-O", recorded)
	for _, verb := range []string{"top", "tree"} {
		out, err := exec.Command(stapsdt(t), append([]string{verb, "--from", recorded}, pair...)...).CombinedOutput()
		require.NoError(t, err)
		require.Contains(t, string(out), "it is unknown which goroutine has fired them", verb)
		out, err = exec.Command(stapsdt(t), append([]string{verb, "--from", recorded, "--key", "thread"}, pair...)...).Output()
		require.NoError(t, err)
		require.Contains(t, string(out), name, verb)
	}
}
