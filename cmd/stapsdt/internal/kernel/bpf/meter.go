//go:build linux

package bpf

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Meter generates sections that count the runs of programs in the selected processes, and measure
// their duration.
type Meter struct {
	env  Env
	hits *ebpf.Map
}

// MaxMetered is the maximum number of programs of a meter that are of use.
const MaxMetered = 4096

// measured is the number of runs per measured run, a power of two. Reading the clock twice takes a
// tenth of the time of the cheapest probes.
const measured = 16

// maxRun is the longest run that counts, in nanoseconds: during a longer one, the thread was
// preempted or waited for a page, which takes none of its processor time.
const maxRun = 32_000

// NewMeter returns a meter for at most room programs of a run. Each program has a slot of its own.
func NewMeter(env *Env, room int) (*Meter, error) {
	hits, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "hits", Type: ebpf.PerCPUArray,
		KeySize: 4, ValueSize: layout.HitsSize, MaxEntries: uint32(room),
	})
	if err != nil {
		return nil, MapError(err)
	}
	of := Env{
		Kernel: env.Kernel, Processes: env.Processes, Roots: env.Roots, Namespace: env.Namespace,
	}
	return &Meter{of, hits}, nil
}

// Close releases the counters.
func (m *Meter) Close() error { return m.hits.Close() }

// Read returns the counts of the program in a slot.
func (m *Meter) Read(slot uint32) (layout.Hits, error) { return layout.ReadHits(m.hits, slot) }

// First returns the section that a program begins with. It also counts events that a condition
// rejects.
func (m *Meter) First(slot uint32) (*Section, error) {
	b := newBuilder(&m.env, nil)
	b.begin()
	b.element(m.hits, slot, labelExit)
	b.add(
		asm.Mov.Reg(regRecord, asm.R0),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, layout.HitsCount),
		asm.LoadMem(asm.R1, regRecord, layout.HitsCount, asm.DWord),
		asm.And.Imm(asm.R1, measured-1),
		asm.JNE.Imm(asm.R1, 0, labelExit),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(regRecord, layout.HitsStart, asm.R0, asm.DWord),
	)
	return b.last()
}

// Last returns the section that a program ends with.
func (m *Meter) Last(slot uint32) (*Section, error) {
	b := newBuilder(&m.env, nil)
	b.add(asm.Mov.Reg(regContext, asm.R1))
	b.element(m.hits, slot, labelExit)
	b.add(
		asm.Mov.Reg(regRecord, asm.R0),
		asm.LoadMem(regTime, regRecord, layout.HitsStart, asm.DWord),
		asm.JEq.Imm(regTime, 0, labelExit),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(regRecord, layout.HitsStart, asm.R1, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.Sub.Reg(asm.R0, regTime),
		asm.JGT.Imm(asm.R0, maxRun, labelExit),
		asm.AddAtomic.Mem(regRecord, asm.R0, asm.DWord, layout.HitsTime),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, layout.HitsMeasured),
	)
	return b.last()
}

// last returns a section that has no counters of its own for events that are not shown.
func (b *builder) last() (*Section, error) {
	b.jump(labelExit)
	b.leaveProgram()
	return b.section()
}

// Nothing returns a section that does nothing. It serves to measure the cost of a probe.
func (k Kernel) Nothing() (*Section, error) {
	b := newBuilder(&Env{Kernel: k}, nil)
	b.add(asm.Mov.Reg(regContext, asm.R1))
	return b.last()
}
