//go:build linux

package bpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
)

// minSeen is how many entries a table of Seen has at least. The kernel drops entries of smaller
// tables before they are full.
const minSeen = 4096

// NewSeen makes a table in which LoadStart's programs note the values of Open, and the process.
// Of more than a few times max, those that were not used for longest are dropped.
func (l *Latency) NewSeen(max int) (seen *ebpf.Map, err error) {
	l.seen, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "seen", Type: ebpf.LRUHash, KeySize: uint32(l.valueSize - record.OpenThread), ValueSize: 8, MaxEntries: uint32(4*max + minSeen),
	})
	return l.seen, err
}

// see notes the process and the values of an operation, of which value is complete but for the
// time. The process takes the place of the thread in the meantime, so that all is in one piece.
func (b *builder) see(seen *ebpf.Map, value int16) {
	if seen == nil {
		return
	}
	const saved = regRecord
	b.add(
		asm.LoadMem(saved, asm.RFP, value+record.OpenThread, asm.DWord),
		asm.Mov.Reg(asm.R0, saved), asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, value+record.OpenThread, asm.R0, asm.DWord),
	)
	b.lookup(seen.FD(), value+record.OpenThread)
	known := b.fresh("known")
	b.add(
		asm.JNE.Imm(asm.R0, 0, known),
		asm.StoreMem(asm.RFP, b.word, asm.R0, asm.DWord), // 0
		asm.LoadMapPtr(asm.R1, seen.FD()),
	)
	b.stack(asm.R2, value+record.OpenThread)
	b.stack(asm.R3, b.word)
	b.add(asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call())
	b.label(known)
	b.add(asm.StoreMem(asm.RFP, value+record.OpenThread, saved, asm.DWord))
}
