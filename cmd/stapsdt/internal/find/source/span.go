//go:build linux

package source

import (
	"cmp"
	"slices"
	"sort"
)

// span is a range of addresses that belongs to something.
type span[T any] struct {
	start, end uint64
	// last is the largest end of this span and all before it.
	last uint64
	of   T
}

// spanMemory is the memory that a span takes.
const spanMemory = 32

// spans are ranges of addresses. They are in the order of their first addresses after sort.
type spans[T any] []span[T]

func (s spans[T]) sort() {
	slices.SortStableFunc(s, func(a, b span[T]) int { return cmp.Compare(a.start, b.start) })
	last := uint64(0)
	for i := range s {
		last = max(last, s[i].end)
		s[i].last = last
	}
}

const (
	// maxOverlaps is the maximum number of spans at an address.
	maxOverlaps = 8
	// maxSteps is the maximum number of spans that a search looks at, because a span can enclose
	// many others.
	maxSteps = 1 << 12
)

// at returns the values of the spans that contain an address, the last one to begin first.
func (s spans[T]) at(address uint64) (all []T) {
	i := sort.Search(len(s), func(i int) bool { return s[i].start > address })
	least := max(i-maxSteps, 0)
	for i--; i >= least && address < s[i].last && len(all) < maxOverlaps; i-- {
		if address < s[i].end {
			all = append(all, s[i].of)
		}
	}
	return all
}
