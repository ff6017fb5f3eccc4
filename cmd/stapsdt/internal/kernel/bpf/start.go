//go:build linux

package bpf

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Start generates the code of a start.
func (l *Latency) Start(env *Env, of Operations, probe *Probe) (*Section, error) {
	parts, err := l.sameKey(probe)
	if err != nil {
		return nil, err
	}
	items, err := l.startItems(probe)
	if err != nil {
		return nil, err
	}
	if l.stacks != nil {
		env = env.awake()
	}
	b := newBuilder(env, probe)
	b.begin()
	b.unlessStopped(of)
	key, value := b.alloc(int16(l.keySize)), b.alloc(int16(l.valueSize))
	b.reserve(parts, key)
	b.reserve(items, value)
	b.zero(value, int16(l.valueSize))
	b.ofExecutable()
	b.pairKey(parts, key, of)
	n := b.nested(l, of, key, value+int16(l.nestedAt))
	n.enter(b)
	if env.Namespace == nil {
		b.add(asm.StoreMem(asm.RFP, value+layout.OpenThread, regThread, asm.DWord))
	} else {
		b.pidTgid()
		b.add(asm.StoreMem(asm.RFP, value+layout.OpenThread, asm.R0, asm.DWord))
	}
	// An operation that is not selected is opened too, with the time 0, so that its end is not
	// counted as one without a start.
	b.fault = labelUnevaluated
	b.conditions(probe, l.startWhere, labelPut)
	for i := range items {
		b.openItem(l, &items[i], i, value)
	}
	if l.stacks != nil {
		b.stackOf(l.stacks, value+l.stackAt(), labelStackless)
	}
	b.see(l.seen, value)
	b.add(asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.RFP, value+layout.OpenTime, asm.R0, asm.DWord))
	b.put(l, of, key, value, n)
	if l.stacks != nil {
		b.forget(of, key)
	}
	b.end()
	return b.section()
}

// forget emits labelStackless: the call is lost, and an open one with its key cannot return.
func (b *builder) forget(of Operations, key int16) {
	b.label(labelStackless)
	b.remove(of.Open, key)
	b.jump(labelLost)
}

// put stores an open operation, at labelPut, and counts it unless its conditions are false.
func (b *builder) put(l *Latency, of Operations, key, value int16, n *nested) {
	b.label(labelPut)
	n.started(b, value+layout.OpenTime)
	if of.Shares != nil {
		b.putShared(of, key, value)
	} else {
		b.update(of.Open, key, value, ebpf.UpdateAny)
		b.add(asm.JNE.Imm(asm.R0, 0, labelFull))
	}
	if len(l.startWhere) > 0 || len(l.Open) > 0 {
		b.add(
			asm.LoadMem(asm.R0, asm.RFP, value+layout.OpenTime, asm.DWord),
			asm.JEq.Imm(asm.R0, 0, labelExit),
		)
	}
	b.total(of, layout.TotalStarts)
	b.jump(labelExit)
	b.label(labelFull)
	b.total(of, layout.TotalFull)
	b.jump(labelExit)
	b.label(labelUnevaluated)
	b.increment(b.env.Stats, layout.StatUnevaluated, 0)
	b.jump(labelPut)
}

// startItems returns the items of Open for another start.
func (l *Latency) startItems(probe *Probe) (items []item, err error) {
	for _, like := range l.Open {
		one, err := probe.keyItem(like.Name, like.Offset)
		if l.kept {
			one.keep()
		}
		same := one.Type.Kind == like.Type.Kind && one.Type.Size == like.Type.Size
		same = same && one.Size == like.Size
		if l.isDetail(like.Name) && (err != nil || probe.hidden(one.expr) || !same) {
			items = append(items, item{Item: value.Item{Name: like.Name}})
			continue
		}
		if err != nil {
			return nil, err
		}
		if one.Size != like.Size {
			return nil, fmt.Errorf("%s is a %v here, but a %v at another probe", like.Name, one.Type, like.Type)
		}
		items = append(items, one)
	}
	return items, nil
}

// minSeen is the minimum capacity of a table of Seen. The kernel evicts entries of smaller LRU
// tables before they are full.
const minSeen = 4096

// NewSeen creates a table in which start programs record each process and its values of Open. When
// it has several times max entries, the kernel evicts the least recently used ones.
func (l *Latency) NewSeen(max int) (seen *ebpf.Map, err error) {
	l.seen, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "seen", Type: ebpf.LRUHash, KeySize: uint32(l.valueSize - layout.OpenThread),
		ValueSize: 8, MaxEntries: uint32(4*max + minSeen),
	})
	return l.seen, err
}

// see records the process and the items of an operation. Its value must be complete except for
// the time. The PID temporarily replaces the thread, so that the key is contiguous.
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
