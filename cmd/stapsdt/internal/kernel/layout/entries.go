//go:build linux

package layout

import (
	"encoding/binary"
	"errors"
	"reflect"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
)

// each calls yield with each entry of a map. The value has a part for each processor if the map
// does. The key and the value are valid until yield returns. While programs write, some entries may
// be missing.
func each(m *ebpf.Map, yield func(key, value []byte)) error {
	keySize, valueSize, parts := int(m.KeySize()), int(m.ValueSize()), 1
	if t := m.Type(); t == ebpf.PerCPUHash || t == ebpf.PerCPUArray {
		parts = ebpf.MustPossibleCPU()
	}
	n := min(max(minBatch, maxBatch/(parts*valueSize)), int(m.MaxEntries()))
	b := batches.Get().(*batch)
	defer batches.Put(b)
	keys, values := b.keys.arrays(n, keySize), b.values.arrays(n*parts, valueSize)
	var cursor ebpf.MapBatchCursor
	for first := true; ; first = false {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			if first { // there are no batches before Linux 5.6, or before 5.13 for per-CPU maps
				return eachAlone(m, yield)
			}
			return err
		}
		for i := range n {
			yield(b.keys.part(i, keySize), b.values.part(i, parts*valueSize))
		}
		if last {
			return nil
		}
	}
}

// sumWords returns the words of an array's element, each summed over all processors.
func sumWords(array *ebpf.Map, index uint32) ([]uint64, error) {
	parts, err := array.LookupBytes(index)
	if err != nil {
		return nil, err
	}
	sum := make([]uint64, array.ValueSize()/8)
	for i := range len(parts) / 8 {
		sum[i%len(sum)] += binary.NativeEndian.Uint64(parts[8*i:])
	}
	return sum, nil
}

// A system call reads about maxBatch bytes, but at least minBatch entries, because this many can
// have the same hash.
const (
	maxBatch = 1 << 18
	minBatch = 64
)

// batch is the memory for the entries that a system call reads. It is used again, because most
// tables of an exporter need only a small part of it.
type batch struct{ keys, values memory }

var batches = sync.Pool{New: func() any { return new(batch) }}

type memory []byte

// arrays returns n arrays of this size, which is known only at run time, as a slice. They are in
// the memory, and have what was there before.
func (m *memory) arrays(n, size int) any {
	if len(*m) < n*size {
		*m = make([]byte, n*size)
	}
	// SAFETY: the memory has n arrays of bytes, which need no alignment, and the slice keeps it.
	at := unsafe.Pointer(unsafe.SliceData(*m))
	return reflect.SliceAt(reflect.ArrayOf(size, reflect.TypeFor[byte]()), at, n).Interface()
}

// part returns the i-th part of the memory, as if all parts had this size.
func (m memory) part(i, size int) []byte { return m[i*size : (i+1)*size : (i+1)*size] }

// eachAlone is each with a system call per entry. The kernel begins again if an entry is removed
// meanwhile.
func eachAlone(m *ebpf.Map, yield func(key, value []byte)) error {
	seen := map[string]bool{}
	var previous any
	for range m.MaxEntries() {
		key, err := m.NextKeyBytes(previous)
		if err != nil || key == nil {
			return err
		}
		previous = key
		value, err := m.LookupBytes(key)
		if err != nil {
			return err
		}
		if value != nil && !seen[string(key)] {
			seen[string(key)] = true
			yield(key, value)
		}
	}
	return nil
}
