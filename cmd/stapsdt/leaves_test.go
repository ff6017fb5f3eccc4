package main

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestRunsLeaveNothing: the runs of the verbs, also on damaged recordings, leave no goroutine, no
// descriptor, no mapping of a recording, and only the memory that cobra's map of flags with
// completions keeps for each command that is made.
func TestRunsLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	hostile := crossing(true, control)
	contents := [][]byte{
		crossing(false, ""), hostile, hostile[:len(hostile)/2], bytes.Repeat([]byte{0xff}, 4096),
	}
	verbs := recordingVerbs(dir)
	runs := func() {
		for _, content := range contents {
			require.NoError(t, os.WriteFile(path, content, 0o600))
			for _, verb := range verbs {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "timeline")))
				execute(append(verb[:len(verb):len(verb)], "--from", path), io.Discard, io.Discard)
			}
		}
	}
	made := func() {
		for range len(contents) * len(verbs) {
			rootCommand(&console.Console{Out: io.Discard, Err: io.Discard})
		}
	}
	// keeps returns how much memory is left after f. The map also takes memory when it grows, but
	// not in each of three runs.
	keeps := func(f func()) int {
		least := math.MaxInt
		for range 3 {
			before := inUse()
			f()
			least = min(least, inUse()-before)
		}
		return least
	}
	runs() // what is made once
	goroutines, descriptors := testenv.Goroutines(), testenv.Descriptors()
	ofCommands, ofRuns := keeps(made), keeps(runs)
	n := len(contents) * len(verbs)
	t.Logf("%d runs keep %d bytes, and as many commands %d", n, ofRuns, ofCommands)
	require.Less(t, ofRuns, ofCommands+n*2048)
	require.Equal(t, descriptors, testenv.Descriptors())
	require.Equal(t, goroutines, testenv.Goroutines())
	maps, _ := os.ReadFile("/proc/self/maps") // which only Linux has
	require.NotContains(t, string(maps), path)
}

// inUse returns the size of the memory that is in use after a collection.
func inUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one's finalizers and pools have held
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
