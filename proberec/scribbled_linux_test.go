package proberec

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"

	"github.com/stretchr/testify/require"
)

// TestLargerHead: what is written of a recording takes no more memory than the recorder, whatever its file says of its size.
func TestLargerHead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flight")
	r, err := Create(path, 1)
	require.NoError(t, err)
	defer r.Close()
	r.Start()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, recording.HeadBytes)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	head, err := recording.DecodeHead(b)
	require.NoError(t, err)
	head.Chunks = 1 << 18
	require.NoError(t, f.Truncate(head.Size()))
	_, err = f.WriteAt(head.Encode(), 0)
	require.NoError(t, err)
	for _, write := range []func(io.Writer) (int64, error){r.WriteJSON, r.WriteTo} {
		_, err := write(io.Discard)
		require.ErrorContains(t, err, "its head states")
	}
}

// TestScribbled: a program whose recording is overwritten at random fires on, and neither blocks nor fails. What
// is read of such a file, by others and by the program itself, ends, and takes bounded memory.
func TestScribbled(t *testing.T) {
	for _, counter := range []bool{false, true} {
		t.Run(fmt.Sprint("counter=", counter), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "flight")
			p := stapsdt.NewProvider("p")
			defer p.Close()
			probe := stapsdt.NewProbe3[int, int64, string](p, "event", "goroutine", "n", "text")
			r, err := Create(path, 1<<20, p)
			require.NoError(t, err)
			r.writer = newWriter(r.file.Memory, r.file.Chunks, recorder.Options{Counter: counter})
			r.Start()
			head, err := os.ReadFile(path)
			require.NoError(t, err)
			head = head[:recording.HeadBytes+4096]
			var stop atomic.Bool
			var fired [4]atomic.Int64
			var group sync.WaitGroup
			for g := range fired {
				group.Go(func() {
					for n := int64(0); !stop.Load(); n++ {
						probe.Fire(g, n, "some text of the event"[:n%20])
						fired[g].Store(n)
					}
				})
			}
			group.Go(func() {
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					t.Error(err)
					return
				}
				defer f.Close()
				random := rand.New(rand.NewPCG(1, 2))
				var b [8]byte
				for !stop.Load() {
					for i := range b {
						b[i] = byte(random.Uint32()) * byte(random.IntN(2))
					}
					// Heads are hit as often as all the rest.
					offset := random.Int64N(recording.HeadBytes + 4096)
					if random.IntN(2) == 0 {
						offset = random.Int64N(r.writer.Bytes() - 8)
					} else if random.IntN(2) == 0 {
						chunk := random.Int64N(int64(r.file.Chunks))
						offset = r.writer.Bytes() - (chunk+1)*recording.ChunkBytes + random.Int64N(recording.ChunkHeadBytes)
					}
					if _, err := f.WriteAt(b[:1+random.IntN(8)], offset); err != nil {
						t.Error(err)
					}
					if random.IntN(20) == 0 { // so that the rest is read too
						_, _ = f.WriteAt(head, 0)
					}
				}
			})
			whole, broken := 0, 0
			enough := 1000
			if testing.Short() {
				enough = 100
			}
			some := func() bool { // each goroutine has fired, and some readings have failed
				for g := range fired {
					if fired[g].Load() <= 1000 {
						return false
					}
				}
				return broken > 0
			}
			var before, after runtime.MemStats
			for whole+broken < enough || !some() {
				runtime.ReadMemStats(&before)
				if readAll(path) == nil {
					whole++
				} else {
					broken++
				}
				_, _ = r.WriteJSON(io.Discard)
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20))
			}
			stop.Store(true)
			group.Wait()
			require.False(t, r.writer.Failed())
			require.NoError(t, r.Close())
			t.Logf("%d readings, and %d that ended with an error", whole, broken)
		})
	}
}

// readAll reads all events of a recording.
func readAll(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := recording.NewReader(f)
	if err != nil {
		return err
	}
	for range 3 {
		more, err := r.More()
		for err == nil && more {
			var e *recording.Event
			if e, err = r.Next(); err == nil {
				for i, a := range e.Probe.Args {
					if a.Kind == kind.String {
						_ = e.Text(i)
					}
				}
			}
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}
