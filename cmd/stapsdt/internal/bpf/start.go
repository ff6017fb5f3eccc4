//go:build linux

package bpf

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Start generates the code of a start.
func (l *Latency) Start(env *Env, of Operations, probe *Probe) (*Section, error) {
	keyItem, err := l.sameKey(probe)
	if err != nil {
		return nil, err
	}
	items, err := l.startItems(probe)
	if err != nil {
		return nil, err
	}
	b := newBuilder(env, probe)
	b.begin()
	b.unlessStopped(of)
	key, value := b.alloc(int16(layout.KeyHeader+l.Key.Size)), b.alloc(int16(l.valueSize))
	b.reserve([]item{keyItem}, key)
	b.reserve(items, value)
	b.zero(value, int16(l.valueSize))
	if err := b.ofExecutable(); err != nil {
		return nil, err
	}
	if err := b.pairKey(&keyItem, key, of.Kind); err != nil {
		return nil, err
	}
	if env.Namespace == nil {
		b.add(asm.StoreMem(asm.RFP, value+layout.OpenThread, regThread, asm.DWord))
	} else {
		b.pidTgid()
		b.add(asm.StoreMem(asm.RFP, value+layout.OpenThread, asm.R0, asm.DWord))
	}
	// An operation that is not selected is opened too, with the time 0, so that its end is not counted as one without a
	// start.
	b.fault = labelUnevaluated
	if err := b.conditions(probe, l.startWhere, labelPut); err != nil {
		return nil, err
	}
	for i := range items {
		if err := b.openItem(l, &items[i], i, value); err != nil {
			return nil, err
		}
	}
	b.see(l.seen, value)
	b.add(asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.RFP, value+layout.OpenTime, asm.R0, asm.DWord))
	b.put(l, of, key, value)
	b.end()
	return b.section()
}

// put stores an open operation, at labelPut, and counts it unless its conditions are false.
func (b *builder) put(l *Latency, of Operations, key, value int16) {
	b.label(labelPut)
	if of.Shares != nil {
		b.putShared(of, key, value)
	} else {
		b.update(of.Open, key, value, ebpf.UpdateAny)
		b.add(asm.JNE.Imm(asm.R0, 0, labelFull))
	}
	if len(l.startWhere) > 0 || len(l.Open) > 0 {
		b.add(asm.LoadMem(asm.R0, asm.RFP, value+layout.OpenTime, asm.DWord), asm.JEq.Imm(asm.R0, 0, labelExit))
	}
	b.increment(of.Totals, of.Kind, layout.TotalStarts)
	b.jump(labelExit)
	b.label(labelFull)
	b.increment(of.Totals, of.Kind, layout.TotalFull)
	b.jump(labelExit)
	b.label(labelUnevaluated)
	b.increment(b.env.Stats, layout.StatUnevaluated, 0)
	b.jump(labelPut)
}

// startItems returns the items of Open for another start.
func (l *Latency) startItems(probe *Probe) (items []item, err error) {
	for _, like := range l.Open {
		one, err := probe.keyItem(like.Name, like.Offset)
		if l.isDetail(like.Name) && (err != nil || probe.hidden(one.expr) || one.Type != like.Type || one.Size != like.Size) {
			items = append(items, item{Item: layout.Item{Name: like.Name}})
			continue
		}
		if err != nil {
			return nil, err
		}
		if one.Size != like.Size {
			return nil, fmt.Errorf("%s is a %v here, and a %v at another probe", like.Name, one.Type, like.Type)
		}
		items = append(items, one)
	}
	return items, nil
}
