//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recursion is a program whose goroutines recurse while their stacks grow and shrink, its collector runs,
// and some calls panic. It prints how many calls began and returned.
const recursion = `package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

var calls, returns atomic.Int64

//go:noinline
func work(n int, explode bool) int {
	var space [256]byte
	space[n&255] = 1
	calls.Add(1)
	if n == 0 {
		if explode {
			panic("exploded")
		}
		returns.Add(1)
		return int(space[0])
	}
	r := work(n-1, explode) + int(space[1])
	returns.Add(1)
	return r
}

func try(n int, explode bool) {
	defer func() { recover() }()
	work(n, explode)
}

//go:noinline
func canary() { time.Sleep(time.Millisecond) }

func main() {
	told := make(chan bool)
	in := bufio.NewReader(os.Stdin)
	go func() { in.ReadString('\n'); close(told) }()
	for wait := true; wait; {
		canary()
		select {
		case <-told:
			wait = false
		default:
		}
	}
	stop := make(chan bool)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	var all sync.WaitGroup
	for g := range 50 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := range 4 {
				try(20*g%400, (g+i)%5 == 0)
			}
		}()
	}
	all.Wait()
	close(stop)
	fmt.Println("done", calls.Load(), returns.Load())
	in.ReadString('\n')
}
`

// withC makes a program one that is built with cgo.
func withC(source string) string {
	const call = "\nfunc init() { println(C.twice(21)) }\n"
	return strings.Replace(source, "import (", "// static int twice(int n) { return 2 * n; }\nimport \"C\"\n\nimport (", 1) + call
}

// builds are the ways in which a program is built.
var builds = []struct {
	name     string
	long     bool
	cgo      bool
	stripped bool
	env      []string
	flags    []string
}{
	{name: "plain"},
	{name: "PIE", long: true, env: []string{"CGO_ENABLED=0"}, flags: []string{"-buildmode=pie"}},
	{name: "stripped PIE", long: true, stripped: true, env: []string{"CGO_ENABLED=0"}, flags: []string{"-buildmode=pie", "-ldflags=-s -w"}},
	{name: "cgo", long: true, cgo: true},
	{name: "static PIE", long: true, cgo: true, flags: []string{"-buildmode=pie", "-tags=netgo,osusergo", "-ldflags=-linkmode=external -extldflags=-static-pie"}},
	{name: "stripped static PIE", long: true, cgo: true, stripped: true, flags: []string{"-buildmode=pie", "-tags=netgo,osusergo", "-ldflags=-s -w -linkmode=external -extldflags=-static-pie"}},
	{name: "unoptimized", long: true, flags: []string{"-gcflags=all=-N -l"}},
	{name: "Go 1.22", long: true, env: []string{"GOTOOLCHAIN=go1.22.12"}},
	{name: "Go 1.27, stripped PIE", long: true, stripped: true, env: []string{"GOTOOLCHAIN=go1.27.0", "CGO_ENABLED=0"}, flags: []string{"-buildmode=pie", "-ldflags=-s -w"}},
}

// TestEveryCallOnce: each call counts once, although functions start again when their stacks have grown, and
// each return that is not a panic's belongs to its call, however the program was built. Without DWARF, arguments
// are refused with the reason.
func TestEveryCallOnce(t *testing.T) {
	testenv.NeedsRoot(t)
	for _, b := range builds {
		t.Run(b.name, func(t *testing.T) {
			if b.long {
				testenv.Long(t, "it builds a program")
			}
			source, env := recursion, b.env
			if b.cgo {
				source, env = withC(source), append(env, "CGO_ENABLED=1")
			}
			path := build(t, source, env, b.flags...)
			if strings.HasSuffix(b.name, "static PIE") {
				requireStaticPIE(t, path)
			}
			t.Run("calls", func(t *testing.T) { requireEveryCall(t, path) })
			t.Run("arguments", func(t *testing.T) { requireArguments(t, path, b.stripped) })
		})
	}
}

// requireStaticPIE looks at the file: the linker must have done what the flags say.
func requireStaticPIE(t *testing.T, path string) {
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, elf.ET_DYN, f.Type)
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type)
	}
}

// requireEveryCall compares the calls of a program with those that two commands count at the same time.
func requireEveryCall(t *testing.T, path string) {
	s := launch(t, path)
	sites := []string{"go:main.work", "go:main.work:return"}
	latency := s.command(sites, "latency", "-o", "json", sites[0])
	// What comes first is attached last, since it could be the start of a pair.
	const last = "go:main.canary"
	count := s.command([]string{last}, append([]string{"count", "-o", "json", last}, sites...)...)
	s.Say("")
	var calls, returns int
	_, err := fmt.Sscan(s.Expect("done", testenv.Patience), &calls, &returns)
	require.NoError(t, err)
	t.Logf("%d calls, %d returns", calls, returns)
	require.Greater(t, calls, returns, "no call panicked")
	got := map[string]int{}
	for _, r := range rows(t, stop(t, count)) {
		got[r.Probe] = r.Count
	}
	delete(got, "main.canary")
	for _, r := range rows(t, stop(t, latency)) {
		got["latency"] += r.Count
	}
	assert.Equal(t, map[string]int{"main.work": calls, "main.work:return": returns, "latency": returns}, got)
}

// requireArguments looks at arguments, which a program has unless it is stripped.
func requireArguments(t *testing.T, path string, stripped bool) {
	s := launch(t, path)
	const reason = "the program has no DWARF: it was linked with -w or -s, or stripped"
	pid := fmt.Sprint(s.PID())
	if !stripped {
		out, err := exec.Command(stapsdt(t), "list", "-p", pid, "go:main.work").CombinedOutput()
		require.NoError(t, err)
		require.Contains(t, string(out), "go:main.work(n int, explode bool) (ret0 int)  # ")
		return
	}
	out, err := exec.Command(stapsdt(t), "count", "-p", pid, "go:main.work", "-w", "n > 3").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "undefined: n")
	require.Contains(t, string(out), reason)
	c := s.command([]string{"go:main.work"}, "trace", "go:main.work")
	stop(t, c)
	require.Contains(t, c.Dump(), "go:main.work is shown without arguments: "+reason)
}
