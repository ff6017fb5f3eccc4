//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

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
			require.NoError(t, json.Unmarshal([]byte(line), &e), line)
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

// replace puts a copy of a file in the place of another.
func replace(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to+".new", content, 0o700))
	require.NoError(t, os.Rename(to+".new", to))
}
