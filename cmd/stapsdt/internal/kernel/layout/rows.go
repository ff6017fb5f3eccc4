//go:build linux

package layout

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
)

// KeyHeader is the size of the program's ID, with which each key begins.
const KeyHeader = 8

// The words of a row. The words after RowSum belong to the latest value, or to a histogram.
const (
	RowCount = 0
	RowSum   = 8 // Sum.Low, followed by Sum.High
	rowSize  = 24

	RowLatest  = rowSize      // the latest value
	RowProcess = rowSize + 8  // the process of the latest value
	RowTime    = rowSize + 16 // the time of the latest value

	RowExemplar = rowSize // the latest value, its ID, its time, and the XOR of these
	RowBuckets  = RowExemplar + 4*8

	RowOwn   = rowSize     // the time of calls without the calls inside them
	RowWhole = rowSize + 8 // the time of calls without those of their function inside them
)

// Rows is the layout of tables in which events are counted: of their rows and of the rows' keys.
type Rows struct {
	// Keys are in the key of a row, in this order. The ID of the program precedes them in KeyHeader
	// bytes. After them comes the index of the bucket in 8 bytes, if each bucket has a row, or the
	// process and its stack, if Stacks is set.
	Keys    []value.Item
	KeySize int
	Stacks  bool
	// KeyBuckets is the number of buckets with a row of their own, which has a sum. Buckets is the
	// number of buckets in one row. Either is 0.
	KeyBuckets, Buckets int
	// Latest adds the latest value to each row.
	Latest bool
	// Nested adds the times of calls without the calls inside them to each row.
	Nested bool
}

// Size is the size of a row.
func (l *Rows) Size() int {
	switch {
	case l.Latest:
		return RowTime + 8
	case l.Nested:
		return RowWhole + 8
	case l.Buckets > 0:
		return RowBuckets + 8*l.Buckets
	}
	return rowSize
}

// Places reports whether rows have fixed places in an array, instead of being created and removed:
// the programs have no keys. Rows of nested calls are not, because
// most of thousands of functions use few of their buckets.
func (l *Rows) Places() bool {
	return len(l.Keys) == 0 && !l.Stacks && !l.Latest && !l.Nested
}

// Alone reports whether programs cannot share a table, because it has a place for each bucket, but
// none for each program.
func (l *Rows) Alone() bool { return l.Places() && l.KeyBuckets > 0 }

// String returns equal strings for programs that can share tables, unless Alone is true.
func (l *Rows) String() string {
	s := fmt.Sprint(l.Size(), l.KeySize, l.Places())
	for _, k := range l.Keys {
		s += fmt.Sprint(" ", k.Size)
	}
	if l.Alone() {
		s += fmt.Sprint(" of ", l.KeyBuckets)
	}
	return s
}

// Row holds the counts of the events with the same key.
type Row struct {
	// ID is the ID of the program, and Key is read with Item.In. An overflow row has neither.
	ID       uint32
	Key      []byte
	Overflow bool
	query.Tally
	// Bucket is the index of the bucket, if each bucket has a row.
	Bucket int
	// Stack is set in tables of stacks, and Process also in tables of latest values. A process
	// without a PID in our namespace is 0.
	Stack   StackID
	Process int
	// Latest is the latest value. Time is the time when it was set, by CLOCK_MONOTONIC.
	Latest    uint64
	Time      time.Duration
	Buckets   []uint64
	Exemplars []Exemplar
	// Own and Whole are RowOwn and RowWhole, in nanoseconds.
	Own, Whole uint64
}

// Exemplar is one event.
type Exemplar struct {
	Value, ID uint64        // the ID is a SpanID
	Time      time.Duration // CLOCK_MONOTONIC
}

// set makes r the row with a key. parts has the values of all processors.
func (r *Row) set(l *Rows, key, parts []byte) {
	r.reset()
	r.ID, r.Key = binary.NativeEndian.Uint32(key), key
	switch {
	case l.Alone():
		r.ID, r.Bucket = 0, int(r.ID)
	case l.KeyBuckets > 0:
		r.Bucket = int(binary.NativeEndian.Uint64(key[l.KeySize-8:]))
	case l.Stacks:
		end := key[l.KeySize-StackKey:]
		r.Process, r.Stack = int(binary.NativeEndian.Uint64(end)), StackID(
			binary.NativeEndian.Uint64(end[8:]),
		)
	}
	r.add(l, parts)
}

// reset makes r an empty row that uses its memory again.
func (r *Row) reset() {
	clear(r.Buckets)
	*r = Row{Buckets: r.Buckets, Exemplars: r.Exemplars[:0]}
}

// copy makes r a copy of another row in the memory of r.
func (r *Row) copy(of *Row) {
	to := *of
	to.Key = append(r.Key[:0], of.Key...)
	to.Buckets = append(r.Buckets[:0], of.Buckets...)
	to.Exemplars = append(r.Exemplars[:0], of.Exemplars...)
	*r = to
}

// Add adds the events of another row with the same key.
func (r *Row) Add(other *Row) {
	r.Merge(other.Tally)
	for i, n := range other.Buckets {
		r.Buckets[i] += n
	}
}

// add adds the parts of a row from all processors.
func (r *Row) add(l *Rows, parts []byte) {
	for size := l.Size(); len(parts) >= size; parts = parts[size:] {
		word := func(at int) uint64 { return binary.NativeEndian.Uint64(parts[at:]) }
		sum := query.Sum{Low: int64(word(RowSum)), High: int64(word(RowSum + 8))}
		r.Merge(query.Tally{Count: word(RowCount), Sum: sum})
		switch {
		case l.Nested:
			r.Own, r.Whole = r.Own+word(RowOwn), r.Whole+word(RowWhole)
		case l.Latest:
			r.Latest, r.Process = word(RowLatest), int(word(RowProcess))
			r.Time = time.Duration(word(RowTime))
		case l.Buckets > 0:
			if r.Buckets == nil {
				r.Buckets = make([]uint64, l.Buckets)
			}
			counts := parts[RowBuckets:size]
			for i := range r.Buckets {
				r.Buckets[i] += binary.NativeEndian.Uint64(counts[8*i:])
			}
			e := Exemplar{word(RowExemplar), word(RowExemplar + 8), At(word(RowExemplar + 16))}
			if at := word(RowExemplar + 16); at > 0 && e.Value^e.ID^at == word(RowExemplar+24) {
				r.Exemplars = append(r.Exemplars, e)
			}
		}
	}
}

// SpanSpread keeps the spans of different processes apart.
const SpanSpread = 0x9E37_79B9_7F4A_7C15

// SpanID returns the ID of a span outside of its process. The IDs of spans are unique only within
// their process.
func SpanID(pid uint32, id uint64) uint64 { return id ^ uint64(pid)*SpanSpread }
