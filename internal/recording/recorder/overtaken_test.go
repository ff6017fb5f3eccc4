package recorder

import (
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestOvertaken: a reader that writers overtake all the time finds whole records only, each goroutine's in
// their order, and what it has seen and lost is what was committed. It ends when the reader has seen enough and was overtaken.
// OVERTAKEN is how long it goes on at least, such as 1h.
func TestOvertaken(t *testing.T) {
	var duration time.Duration
	if text := os.Getenv("OVERTAKEN"); text != "" {
		var err error
		duration, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	for _, o := range allOptions {
		w := newWriter(t, 1<<20, o)
		p := integers(3)
		p.Args = append(p.Args, recording.Arg{Name: "text", Kind: kind.String, Type: kind.TypeString})
		number, ok := w.AddProbe(p)
		require.True(t, ok)
		const goroutines = 4
		var stop atomic.Bool
		var fired [goroutines]uint64
		var group sync.WaitGroup
		for g := range uint64(goroutines) {
			group.Go(func() {
				text := "abcdefghijklmnopqrstuvwxyz"
				for n := uint64(0); !stop.Load(); n++ {
					length := n % uint64(len(text))
					fireAt(w, number, g, n, check(g, n), text[:length])
					fired[g] = n + 1
				}
			})
		}
		r, err := recording.NewReader(w)
		require.NoError(t, err)
		next := map[uint64]uint64{}
		seen := uint64(0)
		read := func(until time.Duration, thorough bool) {
			_, err := r.MoreUntil(until, thorough)
			require.NoError(t, err)
			for e := range eventtest.Events(t, r) {
				g, n := e.Word(0), e.Word(1)
				require.Equal(t, check(g, n), e.Word(2))
				require.Equal(t, n%26, e.Word(3))
				require.Equal(t, "abcdefghijklmnopqrstuvwxyz"[:n%26], string(e.Text(3)))
				require.GreaterOrEqual(t, n, next[g], "goroutine %d", g)
				next[g] = n + 1
				seen++
			}
		}
		const enough = 10_000
		for end := time.Now().Add(duration); seen < enough || r.Lost() == 0 || time.Now().Before(end); {
			// While the chunks are looked at, a goroutine can go on to another shard, whose later events are
			// found first: their order is that of their times before the present.
			read(clock.Now()-time.Millisecond, false)
		}
		stop.Store(true)
		group.Wait()
		read(math.MaxInt64, true)
		all := uint64(0)
		for _, n := range fired {
			all += n
		}
		t.Logf("%d events, of which the reader has seen %d", all, seen)
		require.Equal(t, all, seen+r.Lost())
	}
}

// lapping lets a writer reuse all chunks before the first records are read.
type lapping struct {
	io.ReaderAt
	lap func()
}

func (l *lapping) ReadAt(b []byte, offset int64) (int, error) {
	if lap := l.lap; lap != nil && len(b) > recording.ChunkHeadBytes && len(b) != recording.HeadBytes {
		l.lap = nil
		lap()
	}
	return l.ReaderAt.ReadAt(b, offset)
}

// TestLapped: a reader that looks once at a recording whose writer reuses the chunks that it has found sees what there is then, and how many
// events are lost.
func TestLapped(t *testing.T) {
	w := newWriter(t, 1, Options{})
	number, _ := w.AddProbe(integers(1))
	write := func(n uint64) {
		for i := range n {
			fireAt(w, number, i)
		}
	}
	write(10)
	const more = 100_000
	r := eventtest.Read(t, &lapping{w, func() { write(more) }})
	seen, last := uint64(0), uint64(0)
	for e := range eventtest.Events(t, r) {
		seen, last = seen+1, e.Word(0)
	}
	require.EqualValues(t, more-1, last)
	require.EqualValues(t, 10+more, seen+r.Lost())
	require.False(t, r.Keeps(1))
}

// check is what a record has of the others, to tell whether it is whole.
func check(g, n uint64) uint64 { return (g<<60 ^ n) * 0x9e3779b97f4a7c15 }
