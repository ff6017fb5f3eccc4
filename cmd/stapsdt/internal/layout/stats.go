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

// Stats are numbers of events that were not shown.
type Stats struct {
	// Lost had no room in the ring buffer or in a map.
	Lost uint64
	// Unevaluated reached the filter or a key, but memory that it needs could not be read,
	// or it divides by 0.
	Unevaluated uint64
	// Foreign should be told apart by goroutine, and no goroutine fired them.
	Foreign uint64
}

// NewStats makes a map of the counters.
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
