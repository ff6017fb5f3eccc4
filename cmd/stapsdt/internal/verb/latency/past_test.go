//go:build linux

package latency

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// TestPastDone: an operation that has ended with __done before the run is not open in the recording
// of its process.
func TestPastDone(t *testing.T) {
	testenv.NeedsRoot(t)
	p := stapsdt.NewProvider("latency")
	start, done := stapsdt.NewProbe1[uint64](p, "op__start"), stapsdt.NewProbe1[uint64](p, "op__done")
	require.NoError(t, p.Load())
	defer p.Close()
	r, err := proberec.Create(filepath.Join(t.TempDir(), "recording"), 1<<20, p)
	require.NoError(t, err)
	defer r.Close()
	r.Start()
	for id := range uint64(3) {
		start.Fire(id)
	}
	done.Fire(1)
	config := objects
	config.PIDs, config.Duration = []int{os.Getpid()}, 100*time.Millisecond
	config.Via = query.ViaKernel
	_, all := measure(t, "", config, count.Options{}, "latency:op")
	require.Equal(t, []any{2., 2.}, []any{all[0]["starts_without_end"], all[0]["open"]})
}

// TestPastKey: an operation of the recording has all parts of its key in the kernel too.
func TestPastKey(t *testing.T) {
	testenv.NeedsRoot(t)
	p := stapsdt.NewProvider("latencykey")
	start, end := stapsdt.NewProbe2[string, uint64](p, "op__start"), stapsdt.NewProbe2[string, uint64](p, "op__end")
	require.NoError(t, p.Load())
	defer p.Close()
	r, err := proberec.Create(filepath.Join(t.TempDir(), "recording"), 1<<20, p)
	require.NoError(t, err)
	defer r.Close()
	r.Start()
	for _, client := range []string{"a", "b"} {
		start.Fire(client, 1)
		start.Fire(client, 2)
	}
	end.Fire("a", 2)
	config := objects
	config.PIDs, config.Duration, config.Via = []int{os.Getpid()}, 100*time.Millisecond, query.ViaKernel
	_, all := measure(t, "arg0 arg1 thread", config, count.Options{}, "latencykey:op")
	require.Equal(t, []any{0., 0.}, []any{all[0]["starts_without_end"], all[0]["open"]}, "the recording does not have the thread")
	_, all = measure(t, "arg0 arg1", config, count.Options{}, "latencykey:op")
	require.Equal(t, []any{3., 3.}, []any{all[0]["starts_without_end"], all[0]["open"]})
	var keys []any
	for _, o := range all[0]["longest"].([]any) {
		keys = append(keys, o.(map[string]any)["key"])
	}
	require.Equal(t, []any{[]any{"a", 1.}, []any{"b", 1.}, []any{"b", 2.}}, keys)
}
