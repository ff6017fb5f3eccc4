//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// served is a program whose function handle is called 100 times, by two functions, one of which inlines small.
const served = `package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

type request struct { Path string; N int }

type server struct { calls int }

//go:noinline
func (s *server) handle(req *request, n int) (ok bool) {
	s.calls++
	fmt.Fprint(sink, n)
	return n%2 == 0
}

//go:noinline
func same(n int) int { return n }

func small(n int) int { return same(n) + 1 }

var sink, _ = os.Open(os.DevNull)

//go:noinline
func even(s *server, n int) { s.handle(&request{"/even", n}, small(n) - 1) }

//go:noinline
func odd(s *server, n int) { s.handle(&request{"/odd", n}, n) }

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	s := &server{}
	apply := small
	if time.Now().IsZero() { apply = nil }
	for n := range 100 {
		if n%2 == 0 { even(s, n) } else { odd(s, apply(n) - 1) }
	}
	fmt.Println("done", s.calls)
	in.ReadString('\n')
}
`

const handle = "go:main.(*server).handle"

// TestVerbs: each command works on functions.
func TestVerbs(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, served, nil)
	recording := filepath.Join(t.TempDir(), "calls.rec")
	both := []string{handle, handle + ":return"}
	for _, c := range []struct {
		name  string
		sites []string
		args  []string
		check func(t *testing.T, lines []string)
	}{
		{"trace", both[:1], []string{"trace", "-v", handle}, func(t *testing.T, lines []string) {
			require.Len(t, lines, 101)
			assert.Contains(t, lines[100], `go:main.(*server).handle s={calls=99} req={Path="/odd" N=99} n=99`)
		}},
		{"count", both, []string{"count", "-o", "json", handle, handle + ":return"}, func(t *testing.T, lines []string) {
			all := rows(t, lines)
			require.Len(t, all, 2)
			assert.Equal(t, 100, all[0].Count)
			assert.Equal(t, 100, all[1].Count)
		}},
		{"hist", both[:1], []string{"hist", "-o", "json", handle, "n", "--by", "req.Path"}, func(t *testing.T, lines []string) {
			all := rows(t, lines)
			require.Len(t, all, 2)
			for _, r := range all {
				assert.Equal(t, 50, r.Count, r)
			}
		}},
		{"latency", both, []string{"latency", "-o", "json", handle, "--by", "ok,req.Path"}, func(t *testing.T, lines []string) {
			all := rows(t, lines)
			require.Len(t, all, 2)
			for _, r := range all {
				assert.Equal(t, 50, r.Count)
				assert.Equal(t, r.By["ok"] == true, r.By["req.Path"] == "/even", r)
			}
		}},
		{"tree", both, []string{"tree", handle}, func(t *testing.T, lines []string) {
			assert.Regexp(t, ` 100%  go:main\.\(\*server\)\.handle s=0x\w+ req=0x\w+ n=0 ok=true`, strings.Join(lines, "\n"))
		}},
		{"record", both, []string{"record", "-O", recording, handle, handle + ":return"}, func(t *testing.T, _ []string) {
			out, err := exec.Command(stapsdt(t), "trace", "-o", "json", "--from", recording).CombinedOutput()
			require.NoError(t, err, "%s", out)
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			require.Len(t, lines, 200)
			last := decode(t, lines[199])
			assert.Equal(t, map[string]any{"ok": false}, last.Args)
			out, err = exec.Command(stapsdt(t), "count", "--from", recording, "--by", "n / 10", handle).CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Regexp(t, `\b10 +.*handle`, string(out))
		}},
		{"stack", both[:1], []string{"stack", "-o", "json", handle}, func(t *testing.T, lines []string) {
			callers := map[string]int{}
			for _, line := range lines {
				for _, name := range []string{"main.even", "main.odd"} {
					var r row
					objects.Decode(t, line, &r)
					if strings.Contains(line, `"`+name+`"`) {
						callers[name] += r.Count
					}
				}
			}
			assert.Equal(t, map[string]int{"main.even": 50, "main.odd": 50}, callers, lines)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := launch(t, path)
			command := s.command(c.sites, c.args...)
			s.Say("")
			require.Equal(t, "100", s.Expect("done", testenv.Patience))
			c.check(t, stop(t, command))
		})
	}
}

// TestRefusals: what does not work on functions says so in a sentence.
func TestRefusals(t *testing.T) {
	testenv.NeedsRoot(t)
	s := launch(t, build(t, served, nil))
	pid, command := fmt.Sprint(s.PID()), stapsdt(t) // building it takes longer than it may take to refuse
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("metrics:\n- name: calls_total\n  counter: 1\n  probe: go:main.work\n"), 0o600))
	for _, c := range []struct {
		args    []string
		message string
	}{
		{[]string{"top", "-p", pid, handle, "http:*"}, "http:* selects no functions, but other SPECs do: give SPECs of one kind"},
		{[]string{"top", "-p", pid, handle + ":return"}, "calls are paired with their returns: give " + handle},
		{[]string{"top", "--from", "x.rec", handle}, "recordings do not have the depth of calls"},
		{[]string{"latency", "--from", "x.rec", "go:main.*"}, "recordings do not have the depth of calls"},
		{[]string{"latency", "-p", pid, "go:main.*", "--sort", "sum"}, "--sort takes total, own, count, p50, p99 or max for a table of functions"},
		{[]string{"latency", "-p", pid, handle, "--sort", "own"}, "--sort takes count or average"},
		{[]string{"script", "-p", pid, handle}, "selects functions, but scripts are written for probes"},
		{[]string{"doctor", "-p", pid, handle}, "selects functions, but doctor checks probes only"},
		{[]string{"export", "-c", rules}, "selects functions: name the program with executable"},
		{[]string{"trace", "-a", handle}, "functions, which are looked for in the processes that -p names"},
		{[]string{"trace", "-p", pid, "-o", "chrome", "-O", "-", handle}, "a timeline shows the operations of probes, not of functions"},
		{[]string{"tree", "-p", pid, handle, "http:*"}, "http:* selects no functions, but other SPECs do: give SPECs of one kind"},
		{[]string{"tree", "-p", pid, handle + ":return"}, "tree pairs calls with their returns: give " + handle},
		{[]string{"tree", "-p", pid, handle, "-w", "nope > 1"}, "undefined: nope"},
		{[]string{"tree", "--from", "x.rec", handle}, "recordings do not have the depth of calls"},
		{[]string{"latency", "--from", "x.rec", handle}, "recordings do not have the depth of calls"},
		{[]string{"trace", "http://localhost:1/debug/probes/", handle}, "selects functions, but a program at an address shows only its own probes"},
		{[]string{"trace", "-p", pid, handle, "-w", "req.Nope == 1"}, "undefined: req.Nope; the names are req.Path, req.N"},
		{[]string{"trace", "-p", pid, handle, "--via", "socket"}, "a function in a SPEC"},
		{[]string{"trace", "-p", pid, "go:main.(*server).handel"}, "main.(*server).handle"},
		{[]string{"trace", "-p", pid, "go:main.handle"}, "there is main.(*server).handle"},
		{[]string{"count", s.path + ":go:main.(*server).handel"}, "main.(*server).handle"},
		{[]string{"count", "/bin/sh:go:main.main"}, "it is not a Go program"},
		{[]string{"count", "./nothing:go:main.main"}, "no such file"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
			defer cancel()
			out, err := exec.CommandContext(ctx, command, c.args...).CombinedOutput()
			assert.Error(t, err)
			assert.NoError(t, ctx.Err(), "it does not refuse")
			assert.Contains(t, string(out), c.message)
			assert.NotContains(t, string(out), "panic:")
		})
	}
}

// TestInlined: each command warns of calls that are not seen because a function was inlined, on standard error
// whatever its output is, and what cannot be seen at all is refused with the callers.
func TestInlined(t *testing.T) {
	testenv.NeedsRoot(t)
	const small = "go:main.small"
	s := launch(t, build(t, served, nil))
	for _, args := range [][]string{
		{"trace"}, {"trace", "-o", "json"}, {"count"}, {"count", "-o", "json"}, {"hist", "n"}, {"latency"}, {"latency", "-o", "json"}, {"stack", "-o", "folded"},
		{"tree"}, {"tree", "-o", "json"}, {"record", "-O", filepath.Join(t.TempDir(), "small.rec")},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			all := append([]string{args[0], small}, args[1:]...)
			command := s.command([]string{small}, all...)
			stop(t, command)
			assert.Regexp(t, `(?m)err\| .*not every call is seen, because the compiler has inlined functions in others, at least main\.small in 1$`, command.Dump())
		})
	}
	out, err := exec.Command(stapsdt(t), "list", "-v", "-p", fmt.Sprint(s.PID()), small).CombinedOutput()
	require.NoError(t, err)
	assert.Contains(t, string(out), "inlined in 1 function at least, whose calls are not seen")
	assert.Equal(t, 1, s.list(small)[0].Inlined)
}
