//go:build linux

package program

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Stacks keeps the stacks from which probes were fired, each once.
//
// The kernel puts a stack where its hash says, and refuses one whose place another has. It
// then goes to the same place of the next map, so that stacks are lost only if there are more
// at a place than maps. A map cannot be a hash table with stacks as keys instead: these are
// too large for a BPF program's own stack, and memory per processor is not safe where programs
// are preempted, as those of uprobes are.
type Stacks struct {
	maps  []*ebpf.Map
	depth int
}

const (
	stackMaps = 4
	// stackPlaces is the number of places of a map: with half as many stacks as places, one
	// of 6000 places has more than four.
	stackPlaces = 8192
	// maxDepth is the kernel's default. It is a limit of this program too if the
	// administrator allows more, because every place has room for so many frames.
	maxDepth = 127
	// stackKey is the size of what a key ends with: the process and the stack.
	stackKey = 16
)

// StackID is a stack of Stacks.
type StackID int64

// NoStack is the stack of an event whose stack the kernel could not read.
const NoStack StackID = -1

// NewStacks makes the maps.
func NewStacks() (s *Stacks, err error) {
	s = &Stacks{depth: maxDepth}
	if text, err := os.ReadFile("/proc/sys/kernel/perf_event_max_stack"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			s.depth = max(1, min(n, maxDepth))
		}
	}
	for range stackMaps {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "stacks", Type: ebpf.StackTrace, KeySize: 4, ValueSize: uint32(8 * s.depth), MaxEntries: stackPlaces})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.maps = append(s.maps, m)
	}
	return s, nil
}

// Close releases the maps.
func (s *Stacks) Close() error {
	var errs []error
	for _, m := range s.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Depth is how many frames a stack has at most. One that has so many may have been cut.
func (s *Stacks) Depth() int { return s.depth }

// Addresses returns the addresses of a stack's frames: that of the site, and those to which
// the frames return. It has none for NoStack.
func (s *Stacks) Addresses(id StackID) ([]uint64, error) {
	if id < 0 {
		return nil, nil
	}
	raw, err := s.maps[id>>32].LookupBytes(uint32(id))
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

// CountStacks makes the program count by the process and its stack too.
func (a *Aggregate) CountStacks(s *Stacks) {
	a.stacks = s
	a.KeySize += stackKey
}

// awake returns the environment of a program that may not sleep, because it uses a map of
// stacks.
func (e *Env) awake() *Env {
	env := *e
	env.Kernel.Sleepable = false
	return &env
}

// stackOf puts the process and its stack into a key.
func (b *builder) stackOf(s *Stacks, key int16) {
	b.pidTgid()
	b.add(asm.RSh.Imm(asm.R0, 32), asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord))
	const userStack = 1 << 8 // BPF_F_USER_STACK
	done, none := b.fresh("stack"), b.fresh("nostack")
	for i, m := range s.maps {
		next := b.fresh("stackmap")
		b.add(
			asm.Mov.Reg(asm.R1, regContext), asm.LoadMapPtr(asm.R2, m.FD()), asm.Mov.Imm(asm.R3, userStack),
			asm.FnGetStackid.Call(),
			asm.JSLT.Imm(asm.R0, 0, next),
		)
		b.constant(asm.R1, int64(i)<<32)
		b.add(asm.Or.Reg(asm.R0, asm.R1))
		b.jump(done)
		b.label(next)
		b.add(asm.JNE.Imm(asm.R0, -int32(unix.EEXIST), none))
	}
	b.jump(labelLost)
	b.label(none)
	b.add(asm.Mov.Imm(asm.R0, int32(NoStack)))
	b.label(done)
	b.add(asm.StoreMem(asm.RFP, key+8, asm.R0, asm.DWord))
}
