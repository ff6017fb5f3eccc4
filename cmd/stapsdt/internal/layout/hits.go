//go:build linux

package layout

import (
	"time"

	"github.com/cilium/ebpf"
)

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
