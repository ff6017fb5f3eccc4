//go:build linux && (amd64 || arm64)

package price

import (
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// code returns the first bytes at each site.
func code() map[bpf.Instruction][16]byte {
	all := map[bpf.Instruction][16]byte{}
	for name, address := range sites() {
		all[name] = **(**[16]byte)(unsafe.Pointer(&address))
	}
	return all
}

// TestMeasure: instructions have prices, at least the one that probes have here, and afterwards the code is as it was.
func TestMeasure(t *testing.T) {
	testenv.NeedsRoot(t)
	kernel, err := bpf.Detect()
	require.NoError(t, err)
	before := code()
	table, err := Measure(kernel)
	require.NoError(t, err)
	require.Equal(t, before, code())
	assert.Contains(t, table, bpf.Instruction(site.Chosen().Name))
	for name, price := range table {
		assert.Contains(t, before, name)
		assert.Positive(t, price, "%s", name)
	}
}

// TestCoarseClock: a clock with steps of 4 ms does not make events free.
func TestCoarseClock(t *testing.T) {
	for step, want := range map[time.Duration]time.Duration{1: 700, 4 * time.Millisecond: 700, time.Hour: 0} {
		now := time.Duration(0)
		got := priceOf(func(hits int) { now += 700 * time.Duration(hits) }, func() time.Duration { return now / step * step })
		assert.InDelta(t, want, got, 300, step)
	}
}

// TestOf: an instruction that was not measured costs as much as the dearest one.
func TestOf(t *testing.T) {
	table := Table{"nop1": 1, bpf.Return: 20}
	require.EqualValues(t, 1, table.Of("nop1"))
	require.EqualValues(t, 20, table.Of("nop10"))
	require.Equal(t, "nop1 710ns, return 9.33µs", Table{bpf.Return: 9333, "nop1": 708}.String())
}
