//go:build linux

package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"

	"github.com/cilium/ebpf"
)

// each calls yield with each entry of a map. The caller may keep the key, but not the value, which has a part for each
// processor if the map does. While programs write, some entries may be missing.
func each(m *ebpf.Map, yield func(key, value []byte)) error {
	values := 1
	if t := m.Type(); t == ebpf.PerCPUHash || t == ebpf.PerCPUArray {
		values = ebpf.MustPossibleCPU()
	}
	keySize, valueSize := int(m.KeySize()), int(m.ValueSize())
	batch := min(max(minBatch, maxBatch/(values*valueSize)), int(m.MaxEntries()))
	keys, parts := arrays(batch, keySize), arrays(batch*values, valueSize)
	value := make([]byte, 0, values*valueSize)
	var cursor ebpf.MapBatchCursor
	for first := true; ; first = false {
		n, err := m.BatchLookup(&cursor, keys.Interface(), parts.Interface(), nil)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			if first { // there are no batches before Linux 5.6, or before 5.13 for per-CPU maps
				return eachAlone(m, yield)
			}
			return err
		}
		for i := range n {
			value = value[:0]
			for j := range values {
				value = append(value, parts.Index(i*values+j).Bytes()...)
			}
			yield(bytes.Clone(keys.Index(i).Bytes()), value)
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

// A system call reads about maxBatch bytes, but at least minBatch entries, because this many can have the same hash.
const (
	maxBatch = 1 << 18
	minBatch = 64
)

// arrays returns a slice of n byte arrays, whose size is known only at run time.
func arrays(n, size int) reflect.Value {
	return reflect.MakeSlice(reflect.SliceOf(reflect.ArrayOf(size, reflect.TypeFor[byte]())), n, n)
}

// eachAlone is each with a system call per entry. The kernel begins again if an entry is removed meanwhile.
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
