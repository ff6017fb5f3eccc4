//go:build linux

package past

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// TestBudget: recordings are read until the budget of all is spent, also in the middle of one, and
// the processes for which there was no time are reported. So is one whose file system does not
// answer.
func TestBudget(t *testing.T) {
	p := stapsdt.NewProvider("budget")
	start := stapsdt.NewProbe1[uint64](p, "op__start")
	require.NoError(t, p.Load())
	defer p.Close()
	rec, err := proberec.Create(filepath.Join(t.TempDir(), "recording"), 1<<20, p)
	require.NoError(t, err)
	defer rec.Close()
	rec.Start()
	const fired = 5000
	for i := range fired {
		start.Fire(uint64(i))
	}

	var now time.Duration
	r := NewReader(querytest.Specs("budget:op__start"), clock.Now())
	require.True(t, r.Asked())
	r.now = func() time.Duration { return now }
	var file *replay.File
	// read reads the recording, and lets a time pass at each event.
	read := func(each time.Duration) (seen int) {
		file = replay.NewFile(&replay.Process{PID: os.Getpid()})
		r.Read(os.Getpid(), math.MaxInt64, file,
			func() []string { return []string{"budget:op__start"} },
			func(own *Recording) error {
				return own.Each(math.MaxInt64, func(*recording.Event) error {
					seen, now = seen+1, now+each
					return nil
				})
			})
		return seen
	}
	reported := func() string {
		var out bytes.Buffer
		r.Report(&console.Console{Out: &out, Err: &out})
		return out.String()
	}
	lacks := func(n int) string {
		return fmt.Sprintf("stapsdt: operations that began before %s are not known, because reading recordings took too long (processes: %d): select fewer processes with -p\n",
			r.Since().Format(time.TimeOnly), n)
	}
	require.Equal(t, fired, read(budget/(fired+1)/2))
	require.Empty(t, reported())
	require.Equal(t, "op__start", file.Recorded()[0].Name)
	known := r.Since()
	seen := read(budget / (fired + 1))
	require.Greater(t, seen, fired/2-1024)
	require.Less(t, seen, fired)
	require.Equal(t, lacks(1), reported())
	require.True(t, r.Since().After(known))
	require.Zero(t, read(0))
	require.Equal(t, lacks(2), reported())

	r.spent = 0
	r.Read(os.Getpid(), math.MaxInt64, replay.NewFile(&replay.Process{PID: os.Getpid()}),
		func() []string { return nil }, func(*Recording) error { return stall.Err })
	require.Equal(t, lacks(3), reported())
}
