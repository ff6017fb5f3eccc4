package query

import (
	"math/big"

	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Sum is a sum of integers of 64 bits. The kernel adds their halves separately, because it cannot
// carry before Linux 5.12. The lower halves are signed, so that their sum is small where the values
// are, and overflows after 2^32 values at the soonest.
type Sum struct {
	Low  int64 // sum of the lower halves
	High int64 // sum of the upper halves, which are signed for expr.Int
}

// Add adds an integer.
func (s *Sum) Add(t expr.Type, v uint64) {
	high := int64(v >> 32)
	if t.Kind == expr.Int {
		high = int64(v) >> 32
	}
	s.Low += int64(uint32(v))
	s.Low, s.High = int64(uint32(s.Low)), s.High+high+s.Low>>32
}

// Merge adds a sum.
func (s *Sum) Merge(other Sum) {
	s.High += other.High + other.Low>>32
	s.Low += int64(uint32(other.Low))
	s.Low, s.High = int64(uint32(s.Low)), s.High+s.Low>>32
}

// Tally is a number of events with the sum of their values.
type Tally struct {
	Count uint64
	Sum   Sum
}

// Add adds an event with a value.
func (t *Tally) Add(of expr.Type, v uint64) {
	t.Count++
	t.Sum.Add(of, v)
}

// Merge adds another tally.
func (t *Tally) Merge(other Tally) {
	t.Count += other.Count
	t.Sum.Merge(other.Sum)
}

// Tallies maps the indexes of buckets to their tallies.
type Tallies map[int]*Tally

// Of returns the tally of a bucket. It adds the tally if there is none.
func (t Tallies) Of(bucket int) *Tally {
	one := t[bucket]
	if one == nil {
		one = new(Tally)
		t[bucket] = one
	}
	return one
}

// Int returns the sum.
func (s Sum) Int() *big.Int {
	sum := new(big.Int).Lsh(big.NewInt(s.High), 32)
	return sum.Add(sum, big.NewInt(s.Low))
}

// Float returns the sum.
func (s Sum) Float() float64 {
	s.Low, s.High = int64(uint32(s.Low)), s.High+s.Low>>32
	if int64(int32(s.High)) == s.High { // most sums fit, and package big would allocate
		return float64(s.High<<32 | s.Low)
	}
	f, _ := new(big.Float).SetInt(s.Int()).Float64()
	return f
}
