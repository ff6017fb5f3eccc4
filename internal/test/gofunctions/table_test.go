//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// timed is a function in the table of functions.
type timed struct {
	Start      string
	By         map[string]any
	Count      int
	Total, Own time.Duration
	OwnAtMost  time.Duration `json:"own_at_most"`
	DetachedAt *time.Time    `json:"detached_at"`
}

// untimed is what the table of functions has after its rows.
type untimed struct {
	Idle    *int `json:"functions_without_calls"`
	Calls   int  `json:"starts_without_end"`
	Returns int  `json:"ends_without_start"`
}

// functionTable reads the last table in JSON. The functions of the rows have no package.
func functionTable(t testing.TB, lines []string) (rows map[string]timed, rest untimed) {
	t.Helper()
	rows = map[string]timed{}
	for _, line := range lines {
		if rest.Idle != nil { // another table follows
			rows, rest = map[string]timed{}, untimed{}
		}
		if objects.Decode(t, line, &rest); rest.Idle != nil {
			continue
		}
		var r timed
		if objects.Decode(t, line, &r); r.Start != "" {
			name := strings.TrimPrefix(r.Start, "go:main.")
			require.NotContains(t, rows, name)
			rows[name] = r
		}
	}
	require.NotNil(t, rest.Idle, lines)
	return rows, rest
}

// measure starts latency, and returns when all functions that a pattern selects are measured.
func (s *subject) measure(pattern string, args ...string) *tracetest.Process {
	s.t.Helper()
	args = append([]string{"latency", "-v", "-p", fmt.Sprint(s.PID()), pattern}, args...)
	c := tracetest.Command(s.t, exec.Command(stapsdt(s.t), args...))
	c.WaitSaid(regexp.MustCompile("Ctrl-C ends$"), testenv.Patience)
	return c
}

// TestTableOfNested: calls that recurse, and that panics and Goexit unwind, are counted and measured exactly: the times are
// sums without a remainder.
func TestTableOfNested(t *testing.T) {
	testenv.NeedsRoot(t)
	for last, goexit := range map[string]bool{"/": false, "/exit": true} {
		t.Run(last, func(t *testing.T) {
			s := launch(t, build(t, strings.Replace(nested, `"/exit"}[`, fmt.Sprintf("%q}[", last), 1), nil))
			command := s.measure("go:main.*", "-o", "json")
			s.Say("")
			s.Expect("done", testenv.Patience)
			rows, rest := functionTable(t, stop(t, command))
			roots, steps, unwound := 0, 0, 0
			for _, line := range s.Lines() {
				if _, text, ok := strings.Cut(line, " "); ok && strings.HasPrefix(text, "root(") {
					roots++
					steps += strings.Count(text, "step(") - strings.Count(text, ")!")
					unwound += strings.Count(text, ")!")
				}
			}
			require.Positive(t, unwound)
			assert.Equal(t, roots, rows["root"].Count)
			assert.Positive(t, rows["grow"].Count)
			assert.Zero(t, rest.Returns)
			if goexit {
				assert.Greater(t, rest.Calls, unwound, "also of root")
				return
			}
			assert.Equal(t, steps, rows["step"].Count)
			assert.Equal(t, unwound, rest.Calls)
			// What an unwound call has spent itself is its caller's own, and what it has called is not.
			var own time.Duration
			for _, r := range rows {
				own += r.Own
				assert.LessOrEqual(t, r.Own, r.Total, r)
			}
			assert.Equal(t, rows["main.func1"].Total, own, "the goroutines do nothing else")
			assert.Equal(t, rows["grow"].Total, rows["grow"].Own, "it calls only itself")
			assert.Greater(t, rows["step"].Total, rows["step"].Own)
		})
	}
}

// diving is a program whose functions sleep. It prints the time of the calls of dive.
const diving = `package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

//go:noinline
func leaf(path string) { time.Sleep(2 * time.Millisecond) }

//go:noinline
func dive(n int) {
	leaf("/")
	if n > 0 { dive(n - 1) }
	if n == 5 { leaf("/five") }
}

//go:noinline
func run() (took time.Duration) {
	began := time.Now()
	dive(9)
	return time.Since(began)
}

//go:noinline
func never(n int) int { return n + 1 }

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	took := run() + run()
	fmt.Println("done", took.Nanoseconds())
	if in.ReadString('\n'); took < 0 { never(1) }
}
`

// TestTable: recursion counts once in the total of a function, and what a function calls is not its own.
func TestTable(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, diving, nil)
	table := func(t *testing.T, pattern string, args ...string) (rows map[string]timed, rest untimed, took time.Duration) {
		s := launch(t, path)
		command := s.measure(pattern, append(args, "-o", "json")...)
		s.Say("")
		n, err := strconv.Atoi(s.Expect("done", testenv.Patience))
		require.NoError(t, err)
		rows, rest = functionTable(t, stop(t, command))
		return rows, rest, time.Duration(n)
	}
	const sleep = 2 * time.Millisecond
	t.Run("times", func(t *testing.T) {
		rows, rest, took := table(t, "go:main.*")
		run, dive, leaf := rows["run"], rows["dive"], rows["leaf"]
		assert.Equal(t, []int{2, 20, 22}, []int{run.Count, dive.Count, leaf.Count})
		assert.GreaterOrEqual(t, leaf.Total, 22*sleep)
		assert.GreaterOrEqual(t, dive.Total, leaf.Total)
		assert.LessOrEqual(t, dive.Total, took, "not the sum of all calls, which is more than five times as much")
		assert.GreaterOrEqual(t, run.Total, took)
		assert.Equal(t, leaf.Total, leaf.Own)
		assert.Equal(t, dive.Total-leaf.Total, dive.Own)
		assert.Equal(t, run.Total-dive.Total, run.Own)
		assert.Equal(t, 2, *rest.Idle, "and main, which began earlier")
		assert.Zero(t, rest.Calls)
	})
	t.Run("condition", func(t *testing.T) {
		rows, _, took := table(t, "go:main.div*", "-w", `n % 2 == 1`)
		dive := rows["dive"]
		assert.Equal(t, 10, dive.Count)
		assert.GreaterOrEqual(t, dive.Total, 22*sleep, "all is inside the outermost calls")
		assert.LessOrEqual(t, dive.Total, took)
		assert.GreaterOrEqual(t, dive.Own, 12*sleep)
		assert.LessOrEqual(t, dive.Own, dive.Total-10*sleep, "calls that are not selected are inside others all the same")
	})
	t.Run("text", func(t *testing.T) {
		s := launch(t, path)
		command := s.measure("go:main.*")
		s.Say("")
		s.Expect("done", testenv.Patience)
		lines := stop(t, command)
		require.Len(t, lines, 5, lines)
		assert.Regexp(t, `^COUNT +P50 +P99 +MAX +TOTAL +OWN  FUNCTION$`, lines[0])
		for i, name := range []string{"run", "dive", "leaf"} {
			assert.Regexp(t, ` go:main.`+name+`$`, lines[1+i])
		}
		assert.Equal(t, "2 functions had no calls", lines[4])
	})
	t.Run("one function", func(t *testing.T) {
		for flag, regexp := range map[string]string{"--by=function": `COUNT .* FUNCTION
 +20 .* go:main.dive
$`, "--table=false": `(?s)^go:main.dive
.*@@`} {
			s := launch(t, path)
			pattern := "go:main.dive"
			if flag == "--table=false" {
				pattern = "go:main.div*"
			}
			command := s.measure(pattern, flag)
			s.Say("")
			s.Expect("done", testenv.Patience)
			assert.Regexp(t, regexp, strings.Join(stop(t, command), "\n")+"\n")
		}
	})
}

// TestTop: a screen has the functions whose calls have returned lately.
func TestTop(t *testing.T) {
	testenv.NeedsRoot(t)
	s := launch(t, build(t, diving, nil))
	command := tracetest.Command(t, exec.Command(stapsdt(t), "top", "-v", "-o", "json", "-i", "20ms", "-p", fmt.Sprint(s.PID()), "go:main.dive", "go:main.leaf"))
	command.WaitSaid(regexp.MustCompile("Ctrl-C ends$"), testenv.Patience)
	s.Say("")
	s.Expect("done", testenv.Patience)
	var last struct {
		Seconds   float64
		Functions []struct {
			Function   string
			Count      int
			Total, Own time.Duration
		}
	}
	screens := func() (counts []int) {
		for _, line := range command.Lines() {
			last.Functions = nil
			objects.Decode(t, line, &last)
			counts = append(counts, 0)
			for _, f := range last.Functions {
				counts[len(counts)-1] += f.Count
			}
		}
		return counts
	}
	require.Eventually(t, func() bool {
		counts := screens()
		return slices.Max(append(counts, 0)) > 0 && counts[len(counts)-1] == 0
	}, testenv.Patience, time.Millisecond, "the calls of the last ten screens, and then no more")
	stop(t, command)
	for i, line := range command.Lines() {
		last.Functions = nil
		objects.Decode(t, line, &last)
		for _, f := range last.Functions {
			assert.LessOrEqual(t, f.Own, f.Total, "screen %d: %v", i, f)
			assert.LessOrEqual(t, f.Count, map[string]int{"go:main.dive": 20, "go:main.leaf": 22}[f.Function])
		}
	}
}

// TestTableWithBudget: what is detached from keeps its row, and the others' own times are only bounds.
func TestTableWithBudget(t *testing.T) {
	testenv.NeedsRoot(t)
	s := launch(t, build(t, uneven, nil))
	command := tracetest.Command(t, exec.Command(stapsdt(t), "latency", "-o", "json", "-i", "20ms", "-p", fmt.Sprint(s.PID()), "go:main.*", "--budget", "2%"))
	table := func() []string {
		lines := slices.DeleteFunc(command.Lines(), func(line string) bool { return strings.Contains(line, `"budget"`) })
		end := 0
		for i, line := range lines {
			if strings.Contains(line, "functions_without_calls") {
				end = i + 1
			}
		}
		return lines[:end]
	}
	var rows map[string]timed
	waits := func(what func() bool) {
		require.Eventually(t, func() bool {
			if lines := table(); len(lines) > 0 {
				rows, _ = functionTable(t, lines)
			}
			return what()
		}, testenv.Patience, 10*time.Millisecond)
	}
	waits(func() bool { return min(rows["leaf"].Count, rows["hot"].Count) > 0 }) // what has no calls has no row
	s.Say("")
	waits(func() bool { return rows["leaf"].DetachedAt != nil && rows["rare"].Count > 2 })
	stop(t, command)
	assert.Nil(t, rows["rare"].DetachedAt)
	for name, r := range rows {
		assert.Zero(t, r.Own, name)
		assert.Positive(t, r.OwnAtMost, name)
	}
	assert.Contains(t, command.Dump(), "detached from ")
}
