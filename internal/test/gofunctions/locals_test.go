//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// locals is a program with variables of each kind.
const locals = `package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"
)

type user struct {
	ID   int
	Name string
}

type counter struct{ n int }

func (c *counter) add(n int) { c.n += n }
func (c counter) get() int   { return c.n }

type point struct{ X, Y int32 }

func (p point) sum() int32 { return p.X + p.Y }

var sink int

//go:noinline
func use(all ...any) { sink += len(all) }

//go:noinline
func call(f func(int) int, n int) { use(f(n)) }

//go:noinline
func length(s string) int { return len(s) }

//go:noinline
func load(id int) (*user, error) {
	if id > 2 {
		return nil, errors.New("no such user")
	}
	return &user{id, fmt.Sprint("user", id)}, nil
}

func folded(price int) int {
	tax := price * 19 / 100
	use(tax) //@ inlined
	return price + tax
}

func sumOf[T any](all []T, of func(T) int) int {
	count := of(all[0])
	use(1)
	use(1) //@ generic
	return of(all[0]) + count
}

//go:noinline
func handle(id int, items []string, limit time.Duration) (total int, err error) {
	label := fmt.Sprint("order", id)
	u, err := load(id)
	use(label) //@ once
	if err != nil {
		use(id, err, label, u) //@ error
		return 0, err
	}
	for i, item := range items {
		size := length(item) * 3
		use(label) //@ loop
		total += size + i
		use(item)
	}
	id++
	where := point{int32(id), 7}
	use(label) //@ where
	use(where.sum(), where.X)
	var c counter
	c.add(id)
	use(label) //@ method
	use(c.get(), label, limit)
	shared := len(items) + 4
	p := &shared
	use(p) //@ heap
	if id := length(label); id > 3 {
		use(label) //@ hides
		use(id)
	}
	literal := func(n int) int {
		sum := n + len(label)
		use(1) //@ literal
		return sum + length(label)
	}
	call(literal, id)
	use(folded(total), sumOf(items, func(s string) int { return len(s) }))
	return total, nil
}

func main() {
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	for id := range 4 {
		_, _ = handle(id, []string{"apple", "fig"}, time.Minute)
	}
	fmt.Println("done")
	_, _ = in.ReadString('\n')
}
`

// TestLocals: variables at lines have their values, with their types, and those that are assigned twice have marks.
func TestLocals(t *testing.T) {
	testenv.NeedsRoot(t)
	s, lines := launch(t, build(t, locals, nil)), linesOf(locals)
	names, specs := map[string]string{}, []string{}
	for name, line := range lines {
		spec := fmt.Sprintf("go:main.go:%d", line)
		names[spec[len("go:"):]], specs = name, append(specs, spec)
	}
	c := s.command(specs, append([]string{"trace", "-o", "json", "--budget", "100%"}, specs...)...)
	s.Say("")
	s.Expect("done", testenv.Patience)
	got := map[string][]variables{}
	for _, line := range stop(t, c) {
		var v variables
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		got[names[v.Probe]] = append(got[names[v.Probe]], v)
	}
	has := func(name string, event int, want map[string]any) {
		t.Helper()
		for n, v := range want {
			assert.Equal(t, v, got[name][event].Args[n], "%s at %s", n, name)
			assert.NotContains(t, got[name][event].Unsure, n, name)
		}
	}
	require.Len(t, got["once"], 4)
	has("once", 1, map[string]any{"label": "order1", "len(items)": 2.0, "limit": 60e9})
	has("error", 0, map[string]any{"label": "order3"})
	assert.Contains(t, got["once"][0].Unsure, "id")
	require.Len(t, got["loop"], 6)
	has("loop", 1, map[string]any{"label": "order0", "len(items)": 2.0})
	assert.Contains(t, got["loop"][0].Unsure, "i")
	has("where", 0, map[string]any{"label": "order0", "limit": 60e9})
	has("heap", 0, map[string]any{"label": "order0"})
	has("hides", 1, map[string]any{"id": 6.0})
	has("literal", 2, map[string]any{"n": 3.0, "sum": 9.0, "label": "order2"})
	has("inlined", 0, map[string]any{"price": 25.0, "tax": 4.0})
	has("generic", 0, map[string]any{"count": 5.0})
	for name, events := range got {
		for _, e := range events {
			for n := range e.Args {
				if n == "c" || n == "c.n" || n == "total" || n == "err" {
					assert.Contains(t, e.Unsure, n, name)
				}
			}
		}
	}
}

// TestLocalsInExpressions: an expression takes variables that cannot be wrong, and others if it says so. Otherwise it says why not.
func TestLocalsInExpressions(t *testing.T) {
	testenv.NeedsRoot(t)
	path, lines := build(t, locals, nil), linesOf(locals)
	line := func(name string) string { return fmt.Sprintf("go:main.go:%d", lines[name]) }
	run := func(spec string, args ...string) string {
		s := launch(t, path)
		c := s.command([]string{spec}, append([]string{args[0], spec}, args[1:]...)...)
		s.Say("")
		s.Expect("done", testenv.Patience)
		return strings.Join(stop(t, c), "\n")
	}
	require.Contains(t, run(line("generic"), "count", "-o", "json", "-w", "count > 4"), `"count":3`)
	require.Contains(t, run(line("loop"), "count", "-o", "json", "-w", `unsure(i) == 1 && label == "order2"`), `"count":1`)
	require.Contains(t, run(line("generic"), "count", "-o", "json", "-w", "unsure(count) > 4"), `"count":3`) // it is sure here
	require.Contains(t, run(line("once"), "count", "-o", "json", "--by", "label"), `"label":"order3"`)
	require.Contains(t, run(line("generic"), "hist", "count"), "count 3 ")
	shown := run(line("loop"), "trace", "--show", "label,unsure(i)")
	require.Contains(t, shown, ` label="order0" i=0?`)
	require.Contains(t, run(line("loop"), "trace", "-o", "json", "--show", "label,unsure(i)"), `"args":{"label":"order0","i":0},"unsure":["i"]`)
	require.Contains(t, run(line("loop"), "trace", "-o", "csv", "--show", "label,unsure(i)"), `label,unsure(i)`)

	for args, message := range map[string]string{
		"count " + line("loop") + " -w i>0":        "i may be old there (a variable of a loop): unsure(i) accepts that",
		"count " + line("loop") + " --by total":    "total is not read there: optimized out",
		"hist " + line("once") + " id":             "id may be old there (reassigned): unsure(id) accepts that",
		"count " + line("error") + " -w where.X>0": "undefined: where.X",
		"count " + line("method") + " -w c.n>0":    "c is not read there: optimized out",
		"count " + line("loop") + " -w nothing>0":  "undefined: nothing",
		"trace " + line("loop") + " --via socket":  "a function in a SPEC",
	} {
		s := launch(t, path)
		out, err := exec.Command(stapsdt(t), append(strings.Fields(args), "-p", fmt.Sprint(s.PID()))...).CombinedOutput()
		assert.Error(t, err, args)
		assert.Contains(t, string(out), message, args)
	}
}

// TestLocalsWithoutSource: without its source, no variable of an optimized program is sure, and those of others are.
func TestLocalsWithoutSource(t *testing.T) {
	testenv.NeedsRoot(t)
	line := linesOf(locals)["once"]
	spec := fmt.Sprintf("go:main.go:%d", line)
	listed := func(path string, args ...string) string {
		out, err := exec.Command(stapsdt(t), append([]string{"list", path, spec}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(locals), 0o600))
	const unknown = "label string  # may be old: its source was not found: --source DIR names a directory that has it"
	trimmed := build(t, locals, nil, "-trimpath")
	require.Contains(t, listed(trimmed), unknown)
	require.Contains(t, listed(trimmed, "--source", dir), "label string\n")
	require.Contains(t, listed(build(t, locals, nil, "-trimpath", "-gcflags=all=-N -l")), "label string\n")

	// A source that was changed since is another one.
	path := build(t, locals, nil)
	require.Contains(t, listed(path), "label string\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(strings.Replace(locals, "label := ", "\nlabel := ", 1)), 0o600))
	require.Contains(t, listed(trimmed, "--source", dir), "label string  # may be old: the source does not fit the program")
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)))
	require.Contains(t, listed(path), "was written after the program: if it is right, name its directory with --source")
	require.Contains(t, listed(trimmed), unknown)
}

// lies is a program about whose variables the compiler's description is wrong, or was in some release.
const lies = `package main

import "os"

type user struct{ ID int }

var sink int

//go:noinline
func use(all ...any) { sink += len(all) }

//go:noinline
func part(items []string) {
	for _, item := range items {
		use(1) //@ item
		sink += len(item)
	}
}

//go:noinline
func unnamed(h, k int) int {
	use(h)
	h += k
	use(1) //@ h
	return h
}

//go:noinline
func before(k int, text string, b bool) {
	for i := 0; i < 1; i++ {
		v := i%2 == 0
		use(k, i, v) //@ v
	}
	use(text, b)
}

//go:noinline
func hidden(u *user, n uint64) {
	for i := range 3 {
		if n > 30 {
			use(i)
		}
		n := uint64(u.ID)
		use(i, n) //@ n
	}
	use(n)
}

//go:noinline
func during(all []int, k int) {
	total := 0
	for _, x := range all {
		total += x * k
		use(1) //@ total
	}
	use(total)
}

func small(s string, n int) string {
	m := n & 3 //@ m
	if m < len(s) {
		return s[m:]
	}
	return s
}

//go:noinline
func moved(all []int, s string, k int) {
	for range all {
		s = small(s, k)
		use(1)
	}
	use(s)
}

type padded struct {
	Flag bool
	Name string
}

//go:noinline
func nowhere(k int, text string) {
	if k%2 == 0 {
		zero := padded{false, text[k:]}
		use(k, zero) //@ zero
	}
}

func main() {
	n := len(os.Args)
	part(os.Args)
	nowhere(n, os.Args[0])
	use(unnamed(n, n))
	before(n, os.Args[0], true)
	hidden(&user{n}, uint64(n))
	during(make([]int, n), n)
	moved(make([]int, n), os.Args[0], n)
}
`

// TestLies: what the compiler may describe wrongly is not sure.
func TestLies(t *testing.T) {
	paths := map[string]string{
		"plain": build(t, lies, nil), "race": build(t, lies, nil, "-race"), "arm64": build(t, lies, []string{"GOARCH=arm64", "CGO_ENABLED=0"}),
	}
	for name, line := range linesOf(lies) {
		for kind, path := range paths {
			if name == "n" && kind != "plain" || name == "zero" && kind != "arm64" { // it is described, and right
				continue
			}
			out, err := exec.Command(stapsdt(t), "list", "-o", "json", path, fmt.Sprintf("go:main.go:%d", line)).Output()
			require.NoError(t, err)
			found := false
			for one := range strings.Lines(string(out)) {
				var p struct {
					Variables []struct{ Name, Type, Error, Old string }
				}
				require.NoError(t, json.Unmarshal([]byte(one), &p))
				for _, v := range p.Variables {
					if v.Name == name {
						found = true
						assert.NotEmpty(t, v.Error+v.Old, "%s, %s", name, kind)
					}
				}
			}
			assert.True(t, found, "%s, %s", name, kind)
		}
	}
}

// begins is a program whose functions have results and captured variables that are set after they have begun.
const begins = `package main

import "os"

//go:noinline
func dirty(a int) int {
	var all [60]int
	for i := range all {
		all[i] = a + i
	}
	return all[a%60]
}

//go:noinline
func call(f func() int) int { return f() }

//go:noinline
func literal(k int, s string) int {
	return dirty(100*k) + call(func() int { return k + len(s) }) //@ captured
}

//go:noinline
func named(k int) (sum int, name string, ok bool) { //@ named
	sum += dirty(k)
	return sum, name, ok
}

//go:noinline
func short(k int) (sum int) { sum += dirty(k); return sum } //@ short

func main() {
	os.Stdin.Read(make([]byte, 1))
	sum := 0
	for k := range 4 {
		n, _, _ := named(k)
		sum += dirty(1000*k) + literal(k, "text") + n + dirty(100*k) + short(k)
	}
	println("done")
	os.Stdin.Read(make([]byte, 1+sum&1))
}
`

// TestBegins: where a function begins, it has not set its results and captured variables yet.
func TestBegins(t *testing.T) {
	testenv.NeedsRoot(t)
	lines := linesOf(begins)
	for name, flags := range map[string][]string{"plain": nil, "unoptimized": {"-gcflags=all=-N -l"}} {
		t.Run(name, func(t *testing.T) {
			s := launch(t, build(t, begins, nil, flags...))
			var specs []string
			for _, line := range lines {
				specs = append(specs, fmt.Sprintf("go:main.go:%d", line))
			}
			c := s.command(specs, append([]string{"trace", "-o", "json"}, specs...)...)
			s.Say("")
			s.WaitSaid(regexp.MustCompile("^done$"), testenv.Patience)
			events := map[int]int{}
			for _, line := range stop(t, c) {
				v := variablesOf(t, line)
				events[lineOf(v.Probe)]++
				for name, value := range v.Args {
					switch name {
					case "k":
						require.Contains(t, []any{json.Number("0"), json.Number("1"), json.Number("2"), json.Number("3")}, value, line)
					case "s":
						require.Equal(t, "text", value, line)
					default:
						t.Errorf("%s has not been set: %s", name, line)
					}
				}
			}
			require.Equal(t, map[int]int{lines["named"]: 4, lines["short"]: 4, lines["captured"]: 8}, events)
		})
	}
}

// TestLineRules: a rule of an exporter counts by a variable. It has no source, so it must say that an old value will do.
func TestLineRules(t *testing.T) {
	testenv.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "locals")
	replace(t, build(t, locals, nil), path)
	e := exportFunctions(t, fmt.Sprintf(`
budget: 100%%
metrics:
  - {name: lines_total, probe: "go:main.go:%d", counter: 1, by: [{label: unsure(label)}], executable: locals, labels: []}
`, linesOf(locals)["once"]))
	s := launch(t, path)
	e.waits(map[string]string{`stapsdt_attached_sites{metric="lines_total"}`: "1"})
	s.Say("")
	s.Expect("done", testenv.Patience)
	e.waits(map[string]string{`lines_total{label="order0"}`: "1", `lines_total{label="order3"}`: "1"})
}

// TestLineBudget: a line in a loop is detached from if it takes more than its budget, which it has without --budget, too.
func TestLineBudget(t *testing.T) {
	testenv.NeedsRoot(t)
	s := launch(t, build(t, uneven, nil))
	s.Say("")
	line := 1 + strings.Count(uneven[:strings.Index(uneven, "sink += hot")], "\n")
	spec := fmt.Sprintf("main.go:%d", line)
	detached := func(b budgeted) bool { return len(b.detached) > 0 }
	for limit, flags := range map[string][]string{
		"but --budget allows 2 %":          {"--budget", "2%"},
		"but lines in loops may take 25 %": nil,
	} {
		b := runBudgeted(t, s.PID(), detached, append([]string{"count", "-n", "0", "-i", "200ms", "go:" + spec}, flags...)...)
		require.Equal(t, []string{"go:" + spec}, b.detached)
		require.Positive(t, b.counts[spec])
		require.Contains(t, b.said, "detached from go:"+spec)
		require.Contains(t, b.said, limit)
	}
	out, err := exec.Command(stapsdt(t), "count", "go:"+spec, "-d", "1s", "--budget", "100%", "-p", fmt.Sprint(s.PID())).CombinedOutput()
	require.NoError(t, err)
	require.NotContains(t, string(out), "detached")
}
