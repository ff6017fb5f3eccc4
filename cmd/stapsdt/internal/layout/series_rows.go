//go:build linux

package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// SeriesRow holds the numbers of a combination of keys.
type SeriesRow struct {
	// ID is the number of the row's program, and Key is to be read by Item.In. An overflow
	// has neither.
	ID       uint32
	Key      []byte
	Overflow bool

	Count uint64
	Sum   Sum
	// Latest is the latest value, Process the one that set it, and Time when it did, on
	// CLOCK_MONOTONIC.
	Latest    uint64
	Process   int
	Time      time.Duration
	Buckets   []uint64
	Exemplars []Exemplar
}

// Exemplar is one event.
type Exemplar struct {
	Value, ID uint64        // the ID is a SpanID
	Time      time.Duration // CLOCK_MONOTONIC
}

// All returns the rows, as Read reads them.
func (t *SeriesTables) All(layout *Series) (all []*SeriesRow, err error) {
	err = t.Read(layout, func(r *SeriesRow) { all = append(all, r) })
	return all, err
}

// Read reads the rows. While they are being written, the number of events and their sum can
// be those of different moments.
func (t *SeriesTables) Read(layout *Series, yield func(*SeriesRow)) error {
	size := layout.RowSize()
	each := t.each
	if t.Places() {
		each = t.eachAlone
	}
	err := each(func(key, parts []byte) {
		r := &SeriesRow{ID: binary.NativeEndian.Uint32(key), Key: key}
		if r.add(layout, parts, size); r.Count > 0 { // or it is a place that is free
			yield(r)
		}
	})
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	parts, err := t.Overflow.LookupBytes(uint32(0))
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	r := &SeriesRow{Overflow: true}
	if r.add(layout, parts, size); r.Count > 0 {
		yield(r)
	}
	return nil
}

// Places reports whether rows have places, and are not made and removed.
func (t *SeriesTables) Places() bool {
	return t.Rows.Type() == ebpf.Array || t.Rows.Type() == ebpf.PerCPUArray
}

// each calls yield for each row, with the parts that processors have of it.
func (t *SeriesTables) each(yield func(key, parts []byte)) error {
	processors := 1
	if t.Rows.Type() == ebpf.PerCPUHash {
		processors = ebpf.MustPossibleCPU()
	}
	keySize, partSize := int(t.Rows.KeySize()), int(t.Rows.ValueSize())
	batch := max(minBatch, maxBatch/(processors*partSize))
	keys, parts := arrays(batch, keySize), arrays(batch*processors, partSize)
	row := make([]byte, 0, processors*partSize)
	var cursor ebpf.MapBatchCursor
	for first := true; ; first = false {
		n, err := t.Rows.BatchLookup(&cursor, keys.Interface(), parts.Interface(), nil)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			if first { // before Linux 5.6, or of processors with their own, before 5.13
				return t.eachAlone(yield)
			}
			return err
		}
		for i := range n {
			row = row[:0]
			for j := range processors {
				row = append(row, parts.Index(i*processors+j).Bytes()...)
			}
			yield(bytes.Clone(keys.Index(i).Bytes()), row)
		}
		if last {
			return nil
		}
	}
}

// A system call reads about as many bytes of rows, and not fewer rows than can have the same
// hash.
const (
	maxBatch = 1 << 18
	minBatch = 64
)

// arrays returns a slice of n arrays of bytes, whose size is only known now.
func arrays(n, size int) reflect.Value {
	return reflect.MakeSlice(reflect.SliceOf(reflect.ArrayOf(size, reflect.TypeFor[byte]())), n, n)
}

// eachAlone is each, with system calls for each row.
func (t *SeriesTables) eachAlone(yield func(key, parts []byte)) error {
	var previous any
	for {
		key, err := t.Rows.NextKeyBytes(previous)
		if err != nil || key == nil {
			return err
		}
		previous = key
		parts, err := t.Rows.LookupBytes(key)
		if err != nil {
			return err
		}
		if parts != nil {
			yield(key, parts)
		}
	}
}

// Remove removes a row, which the next event makes again.
func (t *SeriesTables) Remove(r *SeriesRow) error {
	t.forget(r)
	err := t.Rows.Delete(r.Key)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// forget removes the owner of a row.
func (t *SeriesTables) forget(r *SeriesRow) {
	if t.Owners != nil {
		_ = t.Owners.Delete(r.Key)
	}
}

// Take removes a row and returns what it had. Before Linux 5.14 an event between the two is
// lost; later, only one that is being counted at that very moment is.
func (t *SeriesTables) Take(layout *Series, r *SeriesRow) (*SeriesRow, error) {
	part := reflect.ArrayOf(int(t.Rows.ValueSize()), reflect.TypeFor[byte]())
	parts := reflect.New(part)
	if t.Rows.Type() == ebpf.PerCPUHash {
		parts = reflect.New(reflect.SliceOf(part))
	}
	t.forget(r)
	err := t.Rows.LookupAndDelete(r.Key, parts.Interface())
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
		if err = t.Rows.Lookup(r.Key, parts.Interface()); err == nil {
			err = t.Remove(r)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("remove a series: %w", err)
	}
	taken := &SeriesRow{ID: r.ID, Key: r.Key}
	if v := parts.Elem(); v.Kind() == reflect.Slice {
		for i := range v.Len() {
			taken.add(layout, v.Index(i).Bytes(), layout.RowSize())
		}
	} else {
		taken.add(layout, v.Bytes(), layout.RowSize())
	}
	return taken, nil
}

// Removable reports whether rows can be removed. Rows of an array cannot.
func (t *SeriesTables) Removable() bool { return !t.Places() }

// Add adds the events of another row of the same key.
func (r *SeriesRow) Add(other *SeriesRow) {
	r.Count += other.Count
	r.Sum.Merge(other.Sum)
	for i, n := range other.Buckets {
		r.Buckets[i] += n
	}
}

// add adds the parts that processors have of a row.
func (r *SeriesRow) add(layout *Series, parts []byte, size int) {
	for ; len(parts) >= size; parts = parts[size:] {
		word := func(at int) uint64 { return binary.NativeEndian.Uint64(parts[at:]) }
		r.Count += word(RowCount)
		r.Sum.Merge(Sum{word(RowSum), int64(word(RowSum + 8))})
		switch {
		case layout.Latest:
			r.Latest, r.Process, r.Time = word(RowLatest), int(word(RowProcess)), time.Duration(word(RowTime))
		case layout.Buckets > 0:
			if r.Buckets == nil {
				r.Buckets = make([]uint64, layout.Buckets)
			}
			for i := range r.Buckets {
				r.Buckets[i] += word(RowBuckets + 8*i)
			}
			e := Exemplar{word(RowExemplar), word(RowExemplar + 8), At(word(RowExemplar + 16))}
			if at := word(RowExemplar + 16); at > 0 && e.Value^e.ID^at == word(RowExemplar+24) {
				r.Exemplars = append(r.Exemplars, e)
			}
		}
	}
}
