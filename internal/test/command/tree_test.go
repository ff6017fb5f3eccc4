//go:build linux && (amd64 || arm64)

package command_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// grown is a line of tree -o json.
type grown struct {
	Operation   string
	Nanoseconds int64
	PID         int
	Failed      bool
	Operations  []struct {
		ID, Parent              uint64
		Depth                   int
		Operation               string
		Start, Nanoseconds, Own int64
		Part                    float64
		Ended, Failed           bool
		Goroutine               uint64
		Args, Result            map[string]any
	}
	Parent  uint64
	Dropped int
	Lost    uint64
}

// TestTree: every source shows each request with its queries, and the times agree.
func TestTree(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		all := lines[grown](t, source.run(t, func(p *tracetest.Process) { tell(p, "requests 10") }, "tree", "-o", "json").stdout)
		require.Len(t, all, 10)
		for i, tree := range all {
			require.Equal(t, "operator:request", tree.Operation)
			require.Equal(t, i%5 == 4, tree.Failed)
			require.Zero(t, tree.Parent+tree.Lost+uint64(tree.Dropped))
			require.Len(t, tree.Operations, 3)
			root, first, second := tree.Operations[0], tree.Operations[1], tree.Operations[2]
			require.Equal(t, tree.Nanoseconds, root.Nanoseconds)
			require.Equal(t, map[string]any{"path": "/" + string(rune('0'+i%2))}, root.Args)
			require.Equal(t, []any{"SELECT 1", "SELECT 2"}, []any{first.Args["text"], second.Args["text"]})
			require.Equal(t, root.Nanoseconds, root.Own+first.Nanoseconds+second.Nanoseconds)
			require.Less(t, first.Start+first.Nanoseconds, second.Start)
			require.Greater(t, root.Own, int64(2e6))
			require.InDelta(t, float64(first.Nanoseconds)/float64(root.Nanoseconds), first.Part, 1e-9)
			for _, o := range tree.Operations {
				require.True(t, o.Ended)
				require.NotZero(t, o.Goroutine)
			}
			require.Equal(t, []int{0, 1, 1}, []int{root.Depth, first.Depth, second.Depth})
			require.Equal(t, []uint64{root.ID, root.ID}, []uint64{first.Parent, second.Parent})
			if tree.Failed {
				require.Equal(t, map[string]any{"error": "no such table", "status": 500.}, root.Result)
				require.True(t, second.Failed)
				require.Equal(t, "no such table", second.Result["error"])
			}
		}
	})
}

// TestTreeSelection: -w is about roots, --errors about all operations, and --slowest about the times of roots.
func TestTreeSelection(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		run := func(args ...string) []grown {
			t.Helper()
			act := func(p *tracetest.Process) {
				tell(p, "requests 10")
				tell(p, "wide 3")
			}
			return lines[grown](t, source.run(t, act, append([]string{"tree", "-o", "json"}, args...)...).stdout)
		}
		all := run("-w", `path == "/1" && status == 200`)
		require.Len(t, all, 4)
		for _, tree := range all {
			require.Len(t, tree.Operations, 3, "conditions are about the root only")
		}
		require.Len(t, run("--errors"), 2)
		all = run("--slowest", "3")
		require.Len(t, all, 3)
		require.True(t, slices.IsSortedFunc(all, func(a, b grown) int { return int(b.Nanoseconds - a.Nanoseconds) }))
		require.NotEqual(t, "/wide", all[2].Operations[0].Args["path"], "it is quicker")
	})
}

// TestTreeMissing: what is missing of a tree is said.
func TestTreeMissing(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		t.Parallel()
		r := source.run(t, func(p *tracetest.Process) {
			tell(p, "late")
			tell(p, "open 2")
			tell(p, "wide 10500")
		}, "tree")
		require.Regexp(t, `(?m)^ +>\S+ +\S+ +\d+%    operator:query text="slow"  not ended yet$`, r.stdout)
		require.Equal(t, 9999, strings.Count(r.stdout, `text="quick"`))
		require.Regexp(t, `(?m)^501 operations more, for which there was no room$`, r.stdout)
		if r.stderr != "" { // only a command that ends by itself returns it
			require.Contains(t, r.stderr, "501 operations had no room in their trees")
		}
		all := lines[grown](t, source.run(t, func(p *tracetest.Process) { tell(p, "requests 1") }, "tree", "operator:query", "-o", "json").stdout)
		require.Len(t, all, 2)
		for _, tree := range all {
			require.Equal(t, source.name == "recording", tree.Parent != 0, "only a recording has an id for the request, which is not selected")
		}
	})
}

// TestTreeOpen: operations that have not ended are shown when the command ends, of a recording always, and the flags select
// them as others. A command that shows no tree says why.
func TestTreeOpen(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		recorded := source.name == "recording"
		run := func(args ...string) result {
			t.Helper()
			act := func(p *tracetest.Process) {
				tell(p, "hang 3")
				tell(p, "requests 4")
			}
			return source.run(t, act, append([]string{"tree"}, args...)...)
		}
		r := run("--open")
		require.Equal(t, 7, strings.Count(r.stdout, "OPERATION\n"))
		require.Regexp(t, `(?m)^ +>\S+ +\S+  100%  operator:request path="/hang/2"  not ended yet$`, r.stdout)
		require.Regexp(t, `(?m)^ +\S+ +\S+ +\d+%    operator:query text="SELECT 3" error="panic"  FAILED$`, r.stdout)
		count := func(args ...string) int { return len(lines[grown](t, run(append(args, "-o", "json")...).stdout)) }
		open := 0
		if recorded {
			open = 3
		}
		require.Equal(t, 4+open, count())
		require.Equal(t, open, count("--errors"))
		require.Equal(t, 3, count("--open", "--errors"))
		require.Equal(t, 1, count("--open", "-w", `path == "/hang/1"`))
		require.Equal(t, 4, count("--open", "-w", "status == 200"), "only the end tells it")
		require.Equal(t, 5, count("--open", "-n", "5"))
		slowest := lines[grown](t, run("--open", "--slowest", "1", "-o", "json").stdout)
		require.Len(t, slowest, 1)
		require.Equal(t, map[string]any{"path": "/hang/0"}, slowest[0].Operations[0].Args)
		require.False(t, slowest[0].Operations[0].Ended)

		if !recorded {
			return // a command that is interrupted does not return what it says
		}
		for args, why := range map[string]string{
			"--errors -n 9 -w path==\"/0\"":      "7 trees not shown: excluded by the conditions",
			"-n 2 -w status==500 operator:requ*": "3 trees not shown: the root had not ended",
			"operator:query -w text==\"\"":       "trees not shown: excluded by the conditions",
		} {
			r := run(strings.Fields(args)...)
			require.Empty(t, r.stdout)
			require.Contains(t, r.stderr, why, args)
		}
	})
}

// TestTreeText: texts of programs are safe to show.
func TestTreeText(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		r := source.run(t, func(p *tracetest.Process) { tell(p, "hostile") }, "tree", "operator:*")
		require.Regexp(t, `(?m)^ +TIME +OWN  PART  OPERATION$`, r.stdout)
		require.Regexp(t, `(?m)^ *\S+ +\S+  100%  operator:request path=".*forged.*" error=".*" status=200  FAILED$`, r.stdout)
		require.Regexp(t, regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{6}  process \d+  goroutine \d+  id \d+$`), r.stdout)
		for line := range strings.Lines(r.stdout) {
			line = strings.TrimSuffix(line, "\n")
			require.True(t, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) < 0, "%q", line)
		}
	})
}
