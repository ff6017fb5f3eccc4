//go:build linux

package layout

import "github.com/cilium/ebpf"

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
	// Unevaluated counts events that reached the filter or a key, but needed memory that could not be read, or divided by
	// 0.
	Unevaluated uint64
	// Foreign counts events that needed a goroutine, but were fired by none.
	Foreign uint64
}

// NewStats creates a map of the counters.
func NewStats() (*ebpf.Map, error) {
	return ebpf.NewMap(&ebpf.MapSpec{Name: "stats", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: StatCount})
}

// ReadStats reads the counters.
func ReadStats(m *ebpf.Map) (s Stats, err error) {
	for i, to := range []*uint64{StatLost: &s.Lost, StatUnevaluated: &s.Unevaluated, StatForeign: &s.Foreign} {
		words, err := sumWords(m, uint32(i))
		if err != nil {
			return s, err
		}
		*to = words[0]
	}
	return s, nil
}
