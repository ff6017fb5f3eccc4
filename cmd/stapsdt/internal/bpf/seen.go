//go:build linux

package bpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
)

// minSeen is the minimum capacity of a table of Seen. The kernel evicts entries of smaller LRU
// tables before they are full.
const minSeen = 4096

// NewSeen creates a table in which start programs record each process and its values of Open. When it
// has several times max entries, the kernel evicts the least recently used ones.
func (l *Latency) NewSeen(max int) (seen *ebpf.Map, err error) {
	l.seen, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "seen", Type: ebpf.LRUHash, KeySize: uint32(l.valueSize - layout.OpenThread), ValueSize: 8, MaxEntries: uint32(4*max + minSeen),
	})
	return l.seen, err
}

// see records the process and the items of an operation, whose value is complete except for the
// time. The PID temporarily replaces the thread, so that the key is contiguous.
func (b *builder) see(seen *ebpf.Map, value int16) {
	if seen == nil {
		return
	}
	const saved = regRecord
	b.add(
		asm.LoadMem(saved, asm.RFP, value+layout.OpenThread, asm.DWord),
		asm.Mov.Reg(asm.R0, saved), asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, value+layout.OpenThread, asm.R0, asm.DWord),
	)
	b.lookup(seen.FD(), value+layout.OpenThread)
	known := b.fresh("known")
	b.add(
		asm.JNE.Imm(asm.R0, 0, known),
		asm.StoreMem(asm.RFP, b.word, asm.R0, asm.DWord), // 0
	)
	b.update(seen, value+layout.OpenThread, b.word, ebpf.UpdateAny)
	b.label(known)
	b.add(asm.StoreMem(asm.RFP, value+layout.OpenThread, saved, asm.DWord))
}
