//go:build linux

package layout

import (
	"time"

	"github.com/cilium/ebpf"
)

// The layout of what a program counts of itself, in 64-bit words.
const (
	HitsCount    = 0
	HitsMeasured = 8
	HitsTime     = 16
	// HitsStart is when a run began that is being measured, or 0.
	HitsStart = 24
	HitsSize  = 32
)

// Hits are the runs of a program.
type Hits struct {
	// Count is their number.
	Count uint64
	// Time is for how long Measured of them took.
	Measured uint64
	Time     time.Duration
}

// ReadHits reads the hits with an index.
func ReadHits(m *ebpf.Map, index uint32) (h Hits, err error) {
	words, err := sumWords(m, index)
	if err != nil {
		return h, err
	}
	return Hits{words[HitsCount/8], words[HitsMeasured/8], time.Duration(words[HitsTime/8])}, nil
}
