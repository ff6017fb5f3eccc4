//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nested is a program whose goroutines call functions at random, which recurse, panic and recover, end their
// goroutine, and make their stacks grow. Each root call prints what it has called, as "root(step(step))": a
// call that a panic has unwound is followed by "!".
const nested = `package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strings"
	"sync"
)

type request struct { ID int; Path string }

type path struct { text strings.Builder; left int; goexit bool }

var said sync.Mutex

//go:noinline
func grow(n int) int {
	var space [512]byte
	space[n%512] = 1
	if n == 0 { return int(space[0]) }
	return grow(n-1) + int(space[1])
}

//go:noinline
func root(req *request, r *rand.Rand) (ret0 int, err error) {
	p := &path{left: 40, goexit: req.Path == "/exit"}
	ret0 = req.ID
	done := false
	defer func() {
		if recover() != nil || done { // and not by Goexit
			said.Lock()
			fmt.Printf("%d root(%s)\n", req.ID, &p.text)
			said.Unlock()
		}
	}()
	for range r.Intn(4) { step(p, r, 0) }
	done = true
	if req.ID%3 == 0 { return req.ID, errors.New("third") }
	return req.ID, nil
}

//go:noinline
func step(p *path, r *rand.Rand, depth int) int {
	ended := false
	p.text.WriteString("step(")
	defer func() {
		p.text.WriteString(")")
		if !ended { p.text.WriteString("!") }
	}()
	if p.left--; p.left < 0 || depth > 12 { ended = true; return 0 }
	switch r.Intn(12) {
	case 0: panic("unwound")
	case 1: if p.goexit { runtime.Goexit() }
	case 2: ended = true; return guard(p, r, depth)
	case 3: grow(r.Intn(100))
	}
	n := 0
	for range r.Intn(3) { n += step(p, r, depth+1) }
	ended = true
	return n
}

// guard is not traced, and recovers.
//go:noinline
func guard(p *path, r *rand.Rand, depth int) int {
	defer func() { recover() }()
	return step(p, r, depth+1)
}

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	var all sync.WaitGroup
	for g := range 20 {
		all.Add(1)
		go func() {
			defer all.Done()
			r := rand.New(rand.NewSource(int64(g)))
			for i := range 50 {
				req := &request{g*1000 + i, []string{"/", "/exit"}[i/49]}
				root(req, r)
			}
		}()
	}
	all.Wait()
	for runtime.NumGoroutine() > 1 { // each returns after Done
		runtime.Gosched()
	}
	fmt.Println("done")
	in.ReadString('\n')
}
`

// shape returns the calls of a tree in the words of the program.
func shape(t testing.TB, line string) (id, text string) {
	var tree struct {
		Operation  string
		Operations []struct {
			Depth     int
			Operation string
			Goroutine uint64
			Ended     bool
			Args      map[string]any
			Result    map[string]any
		}
	}
	objects.Check(t, line)
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	require.NoError(t, d.Decode(&tree), line)
	var b strings.Builder
	var open []string // what ends each call that is open
	for _, o := range tree.Operations {
		for ; len(open) > o.Depth; open = open[:len(open)-1] {
			b.WriteString(open[len(open)-1])
		}
		b.WriteString(strings.TrimPrefix(o.Operation, "go:main.") + "(")
		end := ")"
		if !o.Ended {
			end = ")!"
		}
		open = append(open, end)
		require.NotZero(t, o.Goroutine)
		if o.Depth > 0 {
			require.Equal(t, tree.Operations[0].Goroutine, o.Goroutine)
		}
	}
	for ; len(open) > 0; open = open[:len(open)-1] {
		b.WriteString(open[len(open)-1])
	}
	id = tree.Operations[0].Result["ret0"].(json.Number).String()
	return id, b.String()
}

// TestTree: the calls of functions are nested as the program has nested them, also after panics and Goexit,
// and the condition is about the root.
func TestTree(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, nested, nil)
	for _, c := range []struct {
		name    string
		flags   []string
		selects func(id int, text string) bool
	}{
		{"all", nil, func(int, string) bool { return true }},
		{"fields", []string{"-w", `req.Path == "/" && ret0 % 2 == 1`}, func(id int, text string) bool { return id%1000 != 49 && id%2 == 1 }},
		{"errors", []string{"--errors"}, func(id int, text string) bool { return id%3 == 0 && !strings.HasSuffix(text, "!)") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := launch(t, path)
			args := append([]string{"tree", "-o", "json", "go:main.root", "go:main.step"}, c.flags...)
			command := s.command([]string{"go:main.root", "go:main.root:return", "go:main.step", "go:main.step:return"}, args...)
			s.Say("")
			s.Expect("done", testenv.Patience)
			got := map[string]string{}
			for _, line := range stop(t, command) {
				id, text := shape(t, line)
				require.NotContains(t, got, id)
				got[id] = text
			}
			want := map[string]string{}
			for _, line := range s.Lines() {
				id, text, ok := strings.Cut(line, " ")
				n, err := strconv.Atoi(id)
				if ok && err == nil && c.selects(n, text) {
					want[id] = text
				}
			}
			require.NotEmpty(t, got)
			assert.Equal(t, want, got)
		})
	}
}
