//go:build linux

package past

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// TestRecording: the recording of a process has the selected events of its providers, and is not known to have those of others.
func TestRecording(t *testing.T) {
	p := stapsdt.NewProvider("past")
	start := stapsdt.NewProbe1[uint64](p, "op__start")
	other := stapsdt.NewProbe1[uint64](p, "other__start")
	require.NoError(t, p.Load())
	defer p.Close()
	specs := []spec.Spec{querytest.Spec("past:op__*")}
	_, err := open(os.Getpid(), specs)
	require.ErrorIs(t, err, errNone, "nothing is recorded")
	r, err := proberec.Create(filepath.Join(t.TempDir(), "recording"), 1<<20, p)
	require.NoError(t, err)
	defer r.Close()
	r.Start()
	start.Fire(7)
	other.Fire(8)
	_, err = open(os.Getpid(), []spec.Spec{querytest.Spec("/lib/x.so:past:op__*")})
	require.ErrorIs(t, err, errNone, "it does not have the files of probes")
	own, err := open(os.Getpid(), specs)
	require.NoError(t, err)
	defer own.Close()
	own.isLate = func() bool { return false }
	var seen []uint64
	require.NoError(t, own.Each(math.MaxInt64, func(e *recording.Event) error {
		seen = append(seen, e.Word(0))
		return nil
	}))
	require.Equal(t, []uint64{7}, seen)
	_, _, ok := own.Since()
	require.True(t, ok)
	require.True(t, own.Has("past:op__start"))
	require.False(t, own.Has("past:op__start", "unrecorded:op__start"))
}
