//go:build linux

package event

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"

	"github.com/cilium/ebpf"
)

// Ring is a ring buffer to which programs send their events, and the stream of these.
type Ring struct {
	*Stream
	env    *bpf.Env
	events *ebpf.Map
	sizes  []int // the sizes of the records, by program ID
}

// NewRing returns a ring of size bytes, a power of two.
func NewRing(env *bpf.Env, name string, size uint32) (r *Ring, err error) {
	r = &Ring{env: env}
	if r.events, err = ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: ebpf.RingBuf, MaxEntries: size}); err != nil {
		return nil, bpf.MapError(err)
	}
	if r.Stream, err = NewStream(r.events, r.size); err != nil {
		r.events.Close()
		return nil, err
	}
	return r, nil
}

// Close releases the ring, which may be nil.
func (r *Ring) Close() {
	if r != nil {
		r.Stream.Close()
		r.events.Close()
	}
}

// size returns the size of a program's records.
func (r *Ring) size(id uint32) int {
	if int(id) >= len(r.sizes) {
		return 0
	}
	return r.sizes[id]
}

// Add returns a section that sends a program's events to the ring. Their ID is the number of programs added before.
func (r *Ring) Add(tr *bpf.Trace) (*bpf.Section, error) {
	section, err := tr.Section(r.env, r.events, uint32(len(r.sizes)))
	if err == nil {
		r.sizes = append(r.sizes, tr.Size)
	}
	return section, err
}
