//go:build linux

package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
)

// StackTable keeps the stacks from which probes were fired, each once.
//
// The kernel puts a stack at the place of its hash, and refuses it if another stack has that place.
// The stack then goes to the same place of the next map, so that stacks are lost only if more of
// them share a place than there are maps. A hash table with stacks as keys is not possible: they
// are too large for a BPF program's own stack, and per-CPU memory is not safe where programs are
// preempted, as programs of uprobes are.
type StackTable struct {
	Maps  []*ebpf.Map
	depth int
}

const (
	stackMaps = 4
	// stackPlaces is the number of places of a map: with half as many stacks as places, one of 6000
	// places has more than four.
	stackPlaces = 8192
	// maxDepth is the kernel's default. It is a limit of this program too if the
	// administrator allows more, because every place has room for that many frames.
	maxDepth = 127
	// StackKey is the size of the end of a key: the process and the stack.
	StackKey = 16
)

// StackID identifies a stack of Stacks.
type StackID int64

// NoStack is the stack of an event whose stack the kernel could not read.
const NoStack StackID = -1

// NewStackTable creates the maps.
func NewStackTable() (s *StackTable, err error) {
	s = &StackTable{depth: maxDepth}
	if text, err := os.ReadFile("/proc/sys/kernel/perf_event_max_stack"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			s.depth = max(1, min(n, maxDepth))
		}
	}
	for range stackMaps {
		m, err := ebpf.NewMap(
			&ebpf.MapSpec{
				Name: "stacks", Type: ebpf.StackTrace, KeySize: 4, ValueSize: uint32(8 * s.depth),
				MaxEntries: stackPlaces,
			},
		)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.Maps = append(s.Maps, m)
	}
	return s, nil
}

// Close releases the maps.
func (s *StackTable) Close() error {
	var errs []error
	for _, m := range s.Maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Depth returns the maximum number of frames in a stack. A stack with this many frames may have
// been cut.
func (s *StackTable) Depth() int { return s.depth }

// Addresses returns the addresses of a stack's frames: the site, followed by the return addresses.
// It returns none for NoStack.
func (s *StackTable) Addresses(id StackID) ([]uint64, error) {
	if id < 0 {
		return nil, nil
	}
	raw, err := s.Maps[id>>32].LookupBytes(uint32(id))
	if err != nil || raw == nil {
		return nil, fmt.Errorf("read a stack: %w", err)
	}
	var all []uint64
	for ; len(raw) >= 8; raw = raw[8:] {
		address := binary.NativeEndian.Uint64(raw)
		if address == 0 {
			break
		}
		all = append(all, address)
	}
	return all, nil
}
