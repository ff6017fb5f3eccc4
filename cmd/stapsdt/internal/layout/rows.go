//go:build linux

package layout

import (
	"encoding/binary"
	"fmt"
	"time"
)

// KeyHeader is the size of the number of a program, with which each key begins.
const KeyHeader = 8

// The words of a row. Those after RowSum are of the latest value, or of a histogram.
const (
	RowCount = 0
	RowSum   = 8 // Sum.Low, and then Sum.High
	rowSize  = 24

	RowLatest  = rowSize      // the latest value
	RowProcess = rowSize + 8  // the process that it is of
	RowTime    = rowSize + 16 // and its time

	RowExemplar = rowSize // the latest value, its ID, its time, and these XOR each other
	RowBuckets  = RowExemplar + 4*8
)

// Rows is the layout of tables in which events are counted: of their rows, and of the keys of these.
type Rows struct {
	// Keys are in the key of a row, in this order. Before them is the number of the program in KeyHeader bytes. After them is the number of the
	// bucket in 8 bytes, if each bucket has a row, or the process and its stack, if Stacks.
	Keys    []Item
	KeySize int
	Stacks  bool
	// KeyBuckets is the number of buckets that have a row each, with a sum, and Buckets the number of those in one row. Either is 0.
	KeyBuckets, Buckets int
	// Latest means that a row has the latest value.
	Latest bool
}

// Size is the size of a row.
func (l *Rows) Size() int {
	switch {
	case l.Latest:
		return RowTime + 8
	case l.Buckets > 0:
		return RowBuckets + 8*l.Buckets
	}
	return rowSize
}

// Places reports whether rows have places in an array, and are not made and removed: those of programs without keys.
func (l *Rows) Places() bool { return len(l.Keys) == 0 && !l.Stacks && !l.Latest }

// Alone reports whether programs cannot share a table: it has a place for each bucket, and not for each program.
func (l *Rows) Alone() bool { return l.Places() && l.KeyBuckets > 0 }

// String is equal for programs that can have the same tables, unless they have to be alone.
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

// Row has the numbers of the events with the same key.
type Row struct {
	// ID is the number of the program, and Key is to be read by Item.In. An overflow has neither.
	ID       uint32
	Key      []byte
	Overflow bool
	Tally
	// Bucket is that of a row for each bucket.
	Bucket int
	// Stack is only of a table of stacks, and Process of these and of the latest value. A process that has no number here is 0.
	Stack   StackID
	Process int
	// Latest is the latest value, and Time when it was set, on CLOCK_MONOTONIC.
	Latest    uint64
	Time      time.Duration
	Buckets   []uint64
	Exemplars []Exemplar
}

// Exemplar is one event.
type Exemplar struct {
	Value, ID uint64        // the ID is a SpanID
	Time      time.Duration // CLOCK_MONOTONIC
}

// row returns the row with a key, of which processors have parts.
func (l *Rows) row(key, parts []byte) *Row {
	r := &Row{ID: binary.NativeEndian.Uint32(key), Key: key}
	switch {
	case l.Alone():
		r.ID, r.Bucket = 0, int(r.ID)
	case l.KeyBuckets > 0:
		r.Bucket = int(binary.NativeEndian.Uint64(key[l.KeySize-8:]))
	case l.Stacks:
		end := key[l.KeySize-StackKey:]
		r.Process, r.Stack = int(binary.NativeEndian.Uint64(end)), StackID(binary.NativeEndian.Uint64(end[8:]))
	}
	r.add(l, parts)
	return r
}

// Add adds the events of another row of the same key.
func (r *Row) Add(other *Row) {
	r.Merge(other.Tally)
	for i, n := range other.Buckets {
		r.Buckets[i] += n
	}
}

// add adds the parts that processors have of a row.
func (r *Row) add(l *Rows, parts []byte) {
	for size := l.Size(); len(parts) >= size; parts = parts[size:] {
		word := func(at int) uint64 { return binary.NativeEndian.Uint64(parts[at:]) }
		r.Merge(Tally{word(RowCount), Sum{word(RowSum), int64(word(RowSum + 8))}})
		switch {
		case l.Latest:
			r.Latest, r.Process, r.Time = word(RowLatest), int(word(RowProcess)), time.Duration(word(RowTime))
		case l.Buckets > 0:
			if r.Buckets == nil {
				r.Buckets = make([]uint64, l.Buckets)
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
