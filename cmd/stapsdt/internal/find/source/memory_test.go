//go:build linux

package source

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
)

// TestMemory: however much DWARF there is, and however small its entries are, not more than 256 MB are
// kept, and the work has an end.
func TestMemory(t *testing.T) {
	testenv.Long(t, "it reads 512 MB")
	const (
		root = iota + 1
		function
		units   = 40
		entries = 2 << 20
	)
	budget := NewBudget()
	table := &Table{
		order: binary.LittleEndian, budget: budget, abbrevs: map[abbrevsKey]*abbrevs{}, codes: map[*unit]*code{},
		abbrev: contents(budget,
			root, 0x11, 1, 0x11, byte(formAddr), 0x12, byte(formData4), 0x10, byte(formSecOffset), 0, 0,
			function, tagSubprogram, 0, 0x11, byte(formAddr), 0x12, byte(formData1), 0, 0, 0),
	}
	address := func(b []byte, n int) []byte { return binary.LittleEndian.AppendUint64(b, uint64(n)<<32) }
	var info, lines []byte
	for i := range units {
		one := address([]byte{root}, 1+i)
		one = append(one, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0) // its size, and its table of lines
		for range entries {
			one = append(address(append(one, function), 1+i), 0xff)
		}
		info = append(info, unitOf(append(one, 0)...)...)
	}
	const header = "\x04\x00" + "\x0e\x00\x00\x00" + "\x01\x01\x01\x00\x01\x02\x00" + "\x00f\x00\x00\x00\x00\x00"
	lines = append([]byte{0, 0, 0, 0}, header...)
	lines = append(lines, "\x00\x09\x02\x00\x00\x00\x00\x01\x00\x00\x00"...)
	lines = append(lines, bytes.Repeat([]byte{0x02, 0x01, 0x01}, 4<<20)...) // a row at each address
	lines = append(lines, "\x00\x01\x01"...)
	binary.LittleEndian.PutUint32(lines, uint32(len(lines)-4))
	table.info, table.line = inFile(budget, info), inFile(budget, lines)

	defer debug.SetGCPercent(debug.SetGCPercent(10)) // so that there is little garbage
	runtime.GC()
	before, found, largest := heap(), 0, int64(0)
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				largest = max(largest, heap()-before)
			}
		}
	}()
	for i := range units {
		frames, err := table.Lookup(uint64(1+i)<<32 + 1)
		assert.NoError(t, err)
		found += len(frames)
	}
	close(stop)
	<-stopped
	testenv.Figure(t, "heap while the largest DWARF is read", float64(largest)/(1<<20), 256, "MB")
	assert.Zero(t, budget.work)
	assert.Greater(t, found, 0)
	assert.Less(t, found, units)
	runtime.KeepAlive(table)
}

// inFile returns a section with contents that are read in pieces.
func inFile(b *Budget, data []byte) section {
	return section{budget: b, opened: true, r: bytes.NewReader(data), size: uint64(len(data))}
}

// heap returns the size of the heap.
func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
