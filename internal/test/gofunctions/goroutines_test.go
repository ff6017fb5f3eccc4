//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// workers is a program whose goroutines tell their IDs.
const workers = `package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

//go:noinline
func work(n int, id string) int { return n + len(id) }

func id() string {
	stack := make([]byte, 64)
	return strings.Fields(string(stack[:runtime.Stack(stack, false)]))[1]
}

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	done := make(chan int)
	for n := range 4 {
		go func() { done <- work(n, id()) + work(n, id()) }()
		<-done
	}
	fmt.Println("done")
	in.ReadString('\n')
}
`

// TestGoroutines: each event of a function has the goroutine that the program says.
func TestGoroutines(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, workers, nil)
	specs := []string{"go:main.work", "go:main.work:return"}
	run := func(args ...string) []string { return launch(t, path).run(specs, args...) }

	ids, last := map[string]bool{}, ""
	lines := run("trace", "-o", "json")
	require.Len(t, lines, 16)
	for _, line := range lines {
		var e struct {
			Goroutine json.Number
			Args      struct{ ID string }
		}
		objects.Decode(t, line, &e)
		if e.Args.ID == "" { // a return
			e.Args.ID = last
		}
		last = e.Args.ID
		assert.Equal(t, e.Args.ID, e.Goroutine.String(), line)
		ids[last] = true
	}
	assert.Len(t, ids, 4)

	lines = run("trace")
	require.Len(t, lines, 17)
	assert.Regexp(t, "^TIME +PID +COMM +GOROUTINE PROBE ", lines[0])
	for _, line := range lines[1:] {
		if _, id, ok := strings.Cut(line, "id="); ok {
			assert.Regexp(t, fmt.Sprintf(" +%s go:main.work ", strings.Trim(id, `"`)), line)
		}
	}

	lines = launch(t, path).run(specs[:1], "trace", "-o", "csv", "--show", "id", "-w", "n == 3")
	require.Len(t, lines, 3)
	assert.True(t, strings.HasSuffix(strings.TrimSpace(lines[0]), ",comm,goroutine,id"), lines[0])
	cells := strings.Split(strings.TrimSpace(lines[1]), ",")
	assert.Equal(t, cells[len(cells)-1], cells[len(cells)-2])
}
