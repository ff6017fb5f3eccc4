//go:build linux

package layout

import (
	"time"

	"github.com/cilium/ebpf"
)

// The indices of the counters of events that are not shown.
const (
	StatLost = iota
	StatUnevaluated
	StatForeign
	StatCount
)

// Stats counts events that were not shown.
type Stats struct {
	// Lost counts events that had no room in the ring buffer or in a map.
	Lost uint64
	// Unevaluated counts events that reached the filter or a key, but needed memory that could not
	// be read, or divided by 0.
	Unevaluated uint64
	// Foreign counts events that needed a goroutine, but were fired by none.
	Foreign uint64
}

// NewStats creates a map of the counters.
func NewStats() (*ebpf.Map, error) {
	return ebpf.NewMap(
		&ebpf.MapSpec{
			Name: "stats", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: StatCount,
		},
	)
}

// ReadStats reads the counters.
func ReadStats(m *ebpf.Map) (s Stats, err error) {
	all := []*uint64{StatLost: &s.Lost, StatUnevaluated: &s.Unevaluated, StatForeign: &s.Foreign}
	for i, to := range all {
		words, err := sumWords(m, uint32(i))
		if err != nil {
			return s, err
		}
		*to = words[0]
	}
	return s, nil
}

// ReadLost reads Stats.Lost alone.
func ReadLost(m *ebpf.Map) (uint64, error) {
	words, err := sumWords(m, StatLost)
	if err != nil {
		return 0, err
	}
	return words[0], nil
}

// The layout of a program's counts of its own runs, in 64-bit words.
const (
	HitsCount    = 0
	HitsMeasured = 8
	HitsTime     = 16
	// HitsStart is the start of a run that is being measured, or 0.
	HitsStart = 24
	HitsSize  = 32
)

// Hits counts the runs of a program.
type Hits struct {
	// Count is the number of runs.
	Count uint64
	// Time is the total duration of the Measured runs.
	Measured uint64
	Time     time.Duration
}

// ReadHits reads the hits at an index.
func ReadHits(m *ebpf.Map, index uint32) (h Hits, err error) {
	words, err := sumWords(m, index)
	if err != nil {
		return h, err
	}
	return Hits{words[HitsCount/8], words[HitsMeasured/8], time.Duration(words[HitsTime/8])}, nil
}
