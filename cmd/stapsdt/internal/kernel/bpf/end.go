//go:build linux

package bpf

import (
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
)

// NewEnd returns the aggregate of an end probe. It uses only the buckets of its query.Counting. End
// generates its code.
func (l *Latency) NewEnd(probe *Probe, c query.Counting) (a *Aggregate, err error) {
	probe = probe.withTime()
	counting := query.Counting{Buckets: c.Buckets, Bounds: c.Bounds}
	a = &Aggregate{counting: counting, probe: probe, Value: query.Elapsed, summed: true}
	a.Nested = l.pairing.Nested
	if a.keys, a.KeySize, err = l.endItems(probe); err != nil {
		return nil, err
	}
	return a, a.layOut()
}

// endItems returns the items of By in the key of a row, evaluated at the start or at the end.
func (l *Latency) endItems(probe *Probe) (items []item, size int, err error) {
	return keyItems(l.pairing.By, func(src string, offset int) (item, error) {
		i, ok := l.atStart[src]
		if !ok {
			return probe.keyItem(src, offset)
		}
		one := item{Item: l.Open[i]}
		one.Offset = offset
		return one, nil
	})
}

// EndOnly generates the code of an end for operations that are counted only while they are open.
func (l *Latency) EndOnly(env *Env, of Operations, probe *Probe) (*Section, error) {
	a := &Aggregate{Rows: layout.Rows{KeySize: layout.KeyHeader}, probe: probe.withTime()}
	return l.End(env, of, a, nil, 0)
}

// End generates the code of an end, which counts the elapsed time unless t is nil. id identifies
// the program in rows.
func (l *Latency) End(
	env *Env, of Operations, a *Aggregate, t *layout.Tables, id uint32,
) (*Section, error) {
	keys, probe := a.keys, a.probe
	parts, err := l.sameKey(probe)
	if err != nil {
		return nil, err
	}
	b := newBuilder(env, probe)
	b.begin()
	b.unlessStopped(of)
	b.now()
	key, rowKey := b.alloc(int16(l.keySize)), b.alloc(int16(a.KeySize))
	b.reserve(parts, key)
	for _, one := range keys {
		if _, ok := l.atStart[one.Name]; !ok {
			b.reserve([]item{one}, rowKey)
		}
	}
	b.ofExecutable()
	b.pairKey(parts, key, of)
	owner, n := b.open(l, keys, of, key, rowKey)
	conditional := len(l.startWhere) > 0 || len(l.Open) > 0
	if conditional {
		b.add(asm.JEq.Imm(regStart, 0, labelRejected)) // the start was not selected
	}
	l.elapsed(b)
	// All reads precede the removal of the operation, because the section may begin again until
	// then.
	b.fault = labelUnevaluated
	b.conditions(probe, l.endWhere, labelRejected)
	for i := range keys {
		if _, ok := l.atStart[keys[i].Name]; !ok {
			b.keyItem(&keys[i], rowKey)
		}
	}
	b.take(of, key, owner, conditional, n)
	if t != nil {
		value := b.alloc(8)
		b.add(asm.Sub.Reg(regTime, regStart), asm.StoreMem(asm.RFP, value, regTime, asm.DWord))
		b.count(a, t, id, rowKey, value, 0)
		n.count(b, value)
	}
	b.jump(labelExit)
	b.label(labelRejected)
	b.add(asm.Mov.Imm(regOutcome, rejected))
	b.jump(labelTake)
	b.label(labelUnevaluated)
	b.add(asm.Mov.Imm(regOutcome, unevaluated))
	b.jump(labelTake)
	b.label(labelUnpaired)
	b.total(of, layout.TotalEnds)
	b.end()
	return b.section()
}

// withTime returns the probe of an end with a variable for the time since the start.
func (p *Probe) withTime() *Probe {
	end := *p
	end.timed = true
	return &end
}

// elapsed puts the time since the start on the stack, if an expression of the end uses it.
func (l *Latency) elapsed(b *builder) {
	exprs := append(slices.Clone(l.endWhere), l.pairing.By...)
	if !slices.Contains(expr.Names(exprs...), query.ElapsedName) {
		return
	}
	at := b.alloc(8)
	b.add(
		asm.Mov.Reg(asm.R1, regTime), asm.Sub.Reg(asm.R1, regStart),
		asm.StoreMem(asm.RFP, at, asm.R1, asm.DWord),
	)
	b.nums[origin{kind: fromElapsed}] = at
}

// unlessStopped exits after OperationTables.Stop.
func (b *builder) unlessStopped(of Operations) {
	b.add(
		asm.LoadMapValue(asm.R1, of.stopped.FD(), 0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, labelExit),
	)
}

// regStart is the time of the start. regThread is the thread and the process as numbered in the
// initial PID namespace. regOutcome determines whether the end of an operation counts.
const (
	regStart   = regRecord
	regThread  = regMissing
	regOutcome = regMissing
)

// The values of regOutcome.
const (
	counts      = iota
	rejected    // a condition is false
	unevaluated // a condition or a key could not be evaluated
)

// open leaves the start time of an open operation in regStart and copies its items into the key of
// a row. If there is no such operation, it jumps to labelUnpaired. It returns the stack offset of
// the owner if the room is divided.
func (b *builder) open(
	l *Latency, keys []item, of Operations, key, rowKey int16,
) (owner int16, n *nested) {
	b.lookup(of.Open.FD(), key)
	b.add(
		asm.JEq.Imm(asm.R0, 0, labelUnpaired),
		asm.LoadMem(regStart, asm.R0, layout.OpenTime, asm.DWord),
	)
	for _, item := range keys {
		i, ok := l.atStart[item.Name]
		if !ok {
			continue
		}
		b.copy(
			asm.RFP, rowKey+int16(item.Offset), asm.R0, int16(l.Open[i].Offset), int16(item.Size),
		)
	}
	if of.Shares != nil {
		owner = b.alloc(8)
		b.copy(asm.RFP, owner, asm.R0, layout.OpenOwner, 8)
	}
	if l.pairing.Nested {
		n = b.nested(l, of, key, b.alloc(nestedSize))
		b.copy(asm.RFP, n.words, asm.R0, int16(l.nestedAt), nestedSize)
	}
	return owner, n
}

// take removes an open operation and counts the pair, unless another end has taken the operation
// meanwhile. The code continues if the pair counts. conditional means that regStart is 0 if the
// start was not selected.
func (b *builder) take(of Operations, key, owner int16, conditional bool, n *nested) {
	b.add(asm.Mov.Imm(regOutcome, counts))
	b.label(labelTake)
	b.remove(of.Open, key)
	b.add(asm.JNE.Imm(asm.R0, 0, labelUnpaired))
	if of.Shares != nil {
		b.leave(of.Shares, owner)
	}
	n.leave(b, conditional)
	if conditional {
		b.add(asm.JEq.Imm(regStart, 0, labelExit))
	}
	b.total(of, layout.TotalPairs)
	b.add(
		asm.JEq.Imm(regOutcome, rejected, labelExit),
		asm.JEq.Imm(regOutcome, unevaluated, labelFault),
	)
}
