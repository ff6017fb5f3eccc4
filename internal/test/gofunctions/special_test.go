//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// special is a program with functions that the generated programs do not have. DEEP is replaced by a type that is nested too
// deeply to be described.
const special = `package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"generated/yaml.v3"
)

type pair struct{ A, B int }

DEEP

//go:noinline
func deep(before int, big L40, after bool, last string) int { return before + len(last) }

//go:noinline
func single(a [1]string, b [1]pair) int { return len(a[0]) + b[0].A }

//go:noinline
func long(s string, xs []int) int { return len(s) }

func seq(yield func(int) bool) { _ = yield(1) && yield(2) && yield(3) }

//go:noinline
func loop() int {
	for n := range seq {
		defer fmt.Fprint(os.Stderr)
		if n == 2 { return n }
	}
	return 0
}

func small(n int) int { return len(os.Getenv("NOTHING")) + n }

// part is inlined in two functions, where its call leaves instructions of its own.
func part(n int) int { return len(os.Getenv("PART")) * n }

//go:noinline
func first(n int) int { return part(n) + 1 }

//go:noinline
func second(n int) int { return part(n) * 2 }

var byValue = part

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	sum := deep(7, L40{}, true, "last") + long(strings.Repeat("x", 400), nil) + loop() + small(1) + yaml.Decode("text")
	for i := range 3 {
		sum += first(i) + second(i) + byValue(i)
	}
	for _, text := range []string{"one", "one", "two"} {
		sum += single([1]string{text}, [1]pair{{len(text), 2}})
	}
	fmt.Println("done", sum)
	in.ReadString('\n')
}
`

const dotted = `package yaml

//go:noinline
func Decode(text string) int { return len(text) }
`

// launchSpecial builds and starts the program.
func launchSpecial(t *testing.T) *subject {
	t.Helper()
	deep := "type L0 struct{ N [40]int }\n"
	for i := range 40 {
		deep += fmt.Sprintf("type L%d struct{ V L%d }\n", i+1, i)
	}
	return launch(t, tracetest.BuildFiles(t, map[string]string{
		"go.mod": "module generated\n\ngo 1.23\n", "main.go": strings.Replace(special, "DEEP\n", deep, 1), "yaml.v3/yaml.go": dotted,
	}, nil))
}

// run runs a command while the program does its work, and returns the lines that it prints.
func (s *subject) run(specs []string, args ...string) []string {
	s.t.Helper()
	c := s.command(specs, append(args, specs...)...)
	s.Say("")
	s.Expect("done", testenv.Patience)
	return stop(s.t, c)
}

// TestUndescribed: a parameter that is not described hides no other one.
func TestUndescribed(t *testing.T) {
	testenv.NeedsRoot(t)
	s := launchSpecial(t)
	out := tracetest.Must(exec.Command(stapsdt(t), "list", "-v", s.path, "go:main.deep").Output())(t)
	assert.Contains(t, string(out), "argument big cannot be read: a type is not described: it is nested too deeply")
	lines := s.run([]string{"go:main.deep"}, "trace", "-o", "json")
	require.Len(t, lines, 1)
	assert.Equal(t, map[string]any{"before": json.Number("7"), "big": nil, "after": true, "last": "last"}, decode(t, lines[0]).Args)
}

// TestRangeBody: the body of a loop over a function returns whether the loop goes on.
func TestRangeBody(t *testing.T) {
	testenv.NeedsRoot(t)
	lines := launchSpecial(t).run([]string{"go:main.loop-range1:return"}, "trace", "-o", "json")
	require.Len(t, lines, 2)
	for i, line := range lines {
		assert.Equal(t, map[string]any{"ret0": i == 0}, decode(t, line).Args)
	}
}

// TestNames: expressions use the names of elements as they are shown.
func TestNames(t *testing.T) {
	testenv.NeedsRoot(t)
	counts := map[string]int{}
	for _, r := range rows(t, launchSpecial(t).run([]string{"go:main.single"}, "count", "-o", "json", "--by", "a[0],b[0].A", "-w", "b[0].B == 2")) {
		counts[fmt.Sprint(r.By["a[0]"], r.By["b[0].A"])] += r.Count
	}
	assert.Equal(t, map[string]int{"one3": 2, "two3": 1}, counts)
}

// TestLength: the length of a string is known however long the string is.
func TestLength(t *testing.T) {
	testenv.NeedsRoot(t)
	all := rows(t, launchSpecial(t).run([]string{"go:main.long"}, "count", "-o", "json", "--sum", "len(s)", "-w", "len(s) > 399"))
	require.Len(t, all, 1)
	assert.Equal(t, 400, all[0].Sum)
}

// TestEscapes: the names of functions are those of the source, and a pattern may have the escapes of go tool nm.
func TestEscapes(t *testing.T) {
	testenv.NeedsRoot(t)
	s := launchSpecial(t)
	const name = "generated/yaml.v3.Decode"
	for _, pattern := range []string{"generated/yaml.v3.Decode", "*yaml.v3*", "generated/yaml%2ev3.Decode", "*yaml%2ev3.D?code"} {
		all := s.list("go:" + pattern)
		require.Len(t, all, 1, pattern)
		assert.Equal(t, name, all[0].Probe)
	}
	lines := s.run([]string{"go:" + name}, "trace", "-o", "json")
	require.Len(t, lines, 1)
	assert.Equal(t, name, decode(t, lines[0]).Probe)
}

// TestSomeInlined: a function that is inlined everywhere does not keep the others from being traced.
func TestSomeInlined(t *testing.T) {
	testenv.NeedsRoot(t)
	s := launchSpecial(t)
	c := s.command([]string{"go:main.long"}, "count", "go:main.long", "go:main.small")
	s.Say("")
	s.Expect("done", testenv.Patience)
	assert.Regexp(t, `1 +go:main\.long`, strings.Join(stop(t, c), "\n"))
	assert.Contains(t, c.Dump(), "go:main.small: main.small cannot be probed: the compiler has inlined all calls of it, in 1 function at least: main.main")
	out, err := exec.Command(stapsdt(t), "count", "-p", fmt.Sprint(s.PID()), "go:main.small", "-d", "1ms").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "no such probe: go:main.small")
}

// TestPartlyInlined: a warning counts the functions with inlined calls of a function, and calls by a
// function value are counted.
func TestPartlyInlined(t *testing.T) {
	testenv.NeedsRoot(t)
	s := launchSpecial(t)
	all := s.list("go:main.part")
	require.Len(t, all, 1)
	assert.Equal(t, 2, all[0].Inlined)
	c := s.command([]string{"go:main.part"}, "count", "go:main.part")
	s.Say("")
	s.Expect("done", testenv.Patience)
	assert.Regexp(t, `3 +go:main\.part`, strings.Join(stop(t, c), "\n"))
	assert.Contains(t, c.Dump(), "not every call is seen, because the compiler has inlined functions in others, at least main.part in 2")
}

// TestListOtherPrograms: only the functions of the named file are read, the reason is that of the file,
// and nothing is said about files that were not named.
func TestListOtherPrograms(t *testing.T) {
	testenv.NeedsRoot(t)
	s := launchSpecial(t)
	out, err := exec.Command(stapsdt(t), "list", "-o", "json", s.path, "go:main.long").Output()
	require.NoError(t, err)
	var fn struct{ PIDs []int }
	objects.Decode(t, string(out), &fn)
	assert.Equal(t, []int{s.PID()}, fn.PIDs)
	out, err = exec.Command(stapsdt(t), "list", "/bin/true", "go:main.long").CombinedOutput()
	assert.Error(t, err)
	said := slices.Collect(strings.Lines(string(out))) // in the end: before it, there may be a line about the programs of other tests
	assert.Equal(t, "stapsdt: no such probe: go:main.long: it is not a Go program\n", said[len(said)-1])
	assert.Empty(t, slices.DeleteFunc(said[:len(said)-1], func(line string) bool { return strings.Contains(line, "its other files have to wait") }))
}
