//go:build linux && (amd64 || arm64)

package price

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMeasure: each instruction takes much longer than it does without a probe, and the one that the kernel steps costs
// more than those that it emulates.
func TestMeasure(t *testing.T) {
	testenv.NeedsRoot(t)
	kernel, err := bpf.Detect()
	require.NoError(t, err)
	silent := execute(sites())
	table, err := Measure(kernel)
	require.NoError(t, err)
	t.Log(table)
	assert.Contains(t, table, bpf.Instruction(site.Chosen().Name))
	for name, price := range table {
		assert.Greater(t, price, 10*silent[name]+50*time.Nanosecond, "%s", name)
	}
	for _, emulated := range []bpf.Instruction{bpf.Push, bpf.Branch} {
		if price, known := table[emulated]; known {
			assert.Greater(t, table[bpf.Entry], price)
		}
	}
	ended := execute(sites())
	for name, price := range table {
		assert.Less(t, ended[name], price/5, "%s is still probed", name)
	}
}

// TestOf: an instruction that was not measured costs as much as the dearest one.
func TestOf(t *testing.T) {
	table := Table{"nop1": 1, bpf.Return: 20}
	require.EqualValues(t, 1, table.Of("nop1"))
	require.EqualValues(t, 20, table.Of("nop10"))
	require.Equal(t, "nop1 710ns, return 9.33µs", Table{bpf.Return: 9333, "nop1": 708}.String())
}
