//go:build linux

package latency

import (
	"os"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestUnfitEnd: an end that lacks a variable is left out, and not its operation, which has another.
func TestUnfitEnd(t *testing.T) {
	testenv.NeedsRoot(t)
	p := stapsdt.NewProvider("unfit")
	start := stapsdt.NewProbe1[uint64](p, "op__start", "id")
	end := stapsdt.NewProbe2[uint64, int](p, "op__end", "id", "rows")
	stapsdt.NewProbe1[uint64](p, "op__done", "id")
	require.NoError(t, p.Load())
	defer p.Close()
	ended := make(chan struct{})
	defer func() { <-ended }()
	config := query.Config{Via: query.ViaKernel, Duration: time.Second}
	config.PIDs = []int{os.Getpid()}
	go func() {
		defer close(ended)
		for until := time.Now().Add(testenv.Patience); time.Now().Before(until); {
			if start.Enabled() && end.Enabled() {
				start.Fire(1)
				end.Fire(1, 5)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	o := count.Options{}
	o.By = []string{"rows"}
	text, _ := measure(t, "", config, o, "unfit:op")
	require.Contains(t, text, "rows=5")
	require.Contains(t, text, "0 starts without an end")
}
