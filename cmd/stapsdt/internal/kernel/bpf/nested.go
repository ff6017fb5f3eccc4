//go:build linux

package bpf

import (
	"errors"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// A call whose Pairing is Nested is measured without the calls inside it: without all of them, and
// without those of its own function, so that recursion does not count twice. The map inner has for
// each goroutine, and for each goroutine and function, the time that was spent inside calls that
// have returned. The time of a call includes the calls inside it, which do not count again. At its
// start, a call keeps what it finds there, and at its return the difference is the time of the
// calls inside it. It replaces that difference by its own time.
//
// No call needs to know its caller, so calls that a panic or Goexit ends leave nothing that is
// wrong: they only lack a return, and what has returned inside them is inside their caller.

// The words of an open call after its items, if its Pairing is Nested.
const (
	nestedStart = 8 * iota // the time of its start, even if a condition is false
	nestedAll              // the time inside calls of its goroutine when it started
	nestedSame             // the time inside calls of its goroutine to its function
	nestedSize
)

// The words of a value of the map inner. Its key is the beginning of the key of an open call: the
// kind and the process, and the goroutine.
const (
	innerTime  = 0 // the time inside calls
	innerDepth = 8 // the least depth of a call since the entry was made
	innerSize  = 16
)

// newInner creates the map inner, which has one entry for each open call and one for its goroutine.
func newInner(open int) (*ebpf.Map, error) {
	return ebpf.NewMap(&ebpf.MapSpec{
		Name: "inner", Type: ebpf.Hash, KeySize: layout.InnerKey, ValueSize: innerSize,
		MaxEntries: uint32(2 * open),
	})
}

// nested holds the stack offsets of an open call's words and of the keys of its entries in inner.
type nested struct {
	inner           *ebpf.Map
	words           int16
	key, all, depth int16
}

// nested returns the offsets for a call with a key, or nil if its Pairing is not Nested. words is
// the stack offset of its words.
func (b *builder) nested(l *Latency, of Operations, key, words int16) *nested {
	if !l.pairing.Nested {
		return nil
	}
	return &nested{of.inner, words, key, b.alloc(layout.InnerKey), key + layout.InnerKey}
}

// entries calls f with the key of each entry and the offset of its word.
func (n *nested) entries(f func(key, word int16)) {
	f(n.all, n.words+nestedAll)
	f(n.key, n.words+nestedSame)
}

// allKey stores the key of the goroutine's entry for all functions.
func (n *nested) allKey(b *builder) {
	b.add(asm.LoadMem(asm.R0, asm.RFP, n.key, asm.DWord))
	b.constant(asm.R1, layout.InnerAll<<32)
	b.add(
		asm.Or.Reg(asm.R0, asm.R1), asm.StoreMem(asm.RFP, n.all, asm.R0, asm.DWord),
		asm.LoadMem(asm.R0, asm.RFP, n.key+8, asm.DWord),
		asm.StoreMem(asm.RFP, n.all+8, asm.R0, asm.DWord),
	)
}

// enter notes at a start the time inside earlier calls. It jumps to labelFull if there is no room.
func (n *nested) enter(b *builder) {
	if n == nil {
		return
	}
	n.allKey(b)
	value := b.alloc(innerSize)
	n.entries(func(key, word int16) {
		found, known := b.fresh("inner"), b.fresh("known")
		b.lookup(n.inner.FD(), key)
		b.add(asm.JNE.Imm(asm.R0, 0, found))
		b.zero(value+innerTime, 8)
		b.copy(asm.RFP, value+innerDepth, asm.RFP, n.depth, 8)
		b.update(n.inner, key, value, ebpf.UpdateAny)
		b.add(asm.JNE.Imm(asm.R0, 0, labelFull), asm.Mov.Imm(asm.R1, 0))
		b.jump(known)
		b.label(found)
		b.add(
			asm.LoadMem(asm.R1, asm.R0, innerTime, asm.DWord),
			asm.LoadMem(asm.R2, asm.R0, innerDepth, asm.DWord),
			asm.LoadMem(asm.R3, asm.RFP, n.depth, asm.DWord),
			asm.JGE.Reg(asm.R3, asm.R2, known),
			asm.StoreMem(asm.R0, innerDepth, asm.R3, asm.DWord),
		)
		b.label(known)
		b.add(asm.StoreMem(asm.RFP, word, asm.R1, asm.DWord))
	})
}

// started notes the start, whose time is on the stack unless a condition is false.
func (n *nested) started(b *builder, time int16) {
	if n == nil {
		return
	}
	known := b.fresh("started")
	b.add(
		asm.LoadMem(asm.R0, asm.RFP, time, asm.DWord), asm.JNE.Imm(asm.R0, 0, known),
		asm.FnKtimeGetNs.Call(),
	)
	b.label(known)
	b.add(asm.StoreMem(asm.RFP, n.words+nestedStart, asm.R0, asm.DWord))
}

// leave replaces the words of a call, which has been removed from the open ones, by the time inside
// calls in it, and counts the call as one. The time in its function counts only if the call does:
// regOutcome and regStart tell.
func (n *nested) leave(b *builder, conditional bool) {
	if n == nil {
		return
	}
	n.allKey(b)
	n.entries(func(key, word int16) {
		found, left := b.fresh("inner"), b.fresh("left")
		b.lookup(n.inner.FD(), key)
		b.add(asm.JNE.Imm(asm.R0, 0, found), asm.StoreMem(asm.RFP, word, asm.R0, asm.DWord))
		b.jump(left)
		b.label(found)
		b.add(
			asm.LoadMem(asm.R1, asm.R0, innerTime, asm.DWord),
			asm.LoadMem(asm.R2, asm.RFP, word, asm.DWord),
			asm.Sub.Reg(asm.R1, asm.R2),
			asm.StoreMem(asm.RFP, word, asm.R1, asm.DWord),
		)
		kept := b.fresh("kept")
		if key == n.key {
			b.add(asm.JNE.Imm(regOutcome, counts, kept))
			if conditional {
				b.add(asm.JEq.Imm(regStart, 0, kept))
			}
		}
		b.add(
			asm.Add.Reg(asm.R2, regTime),
			asm.LoadMem(asm.R1, asm.RFP, n.words+nestedStart, asm.DWord),
			asm.Sub.Reg(asm.R2, asm.R1),
			asm.StoreMem(asm.R0, innerTime, asm.R2, asm.DWord),
		)
		b.label(kept)
		// The outermost call removes the entry: no call is open that uses it.
		b.add(
			asm.LoadMem(asm.R1, asm.R0, innerDepth, asm.DWord),
			asm.LoadMem(asm.R2, asm.RFP, n.depth, asm.DWord),
			asm.JGT.Reg(asm.R2, asm.R1, left),
		)
		b.remove(n.inner, key)
		b.label(left)
	})
}

// count adds the time of a call without the calls inside it to the row in regRecord. elapsed is the
// stack offset of the time of the call.
func (n *nested) count(b *builder, elapsed int16) {
	if n == nil {
		return
	}
	at := int16(layout.RowOwn)
	n.entries(func(_, word int16) {
		b.add(
			asm.LoadMem(asm.R1, asm.RFP, elapsed, asm.DWord),
			asm.LoadMem(asm.R2, asm.RFP, word, asm.DWord),
			asm.Sub.Reg(asm.R1, asm.R2),
			asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, at),
		)
		at = layout.RowWhole
	})
}

// Go lets the pairing go on after Stop.
func (t *OperationTables) Go() error { return t.stopped.Put(uint32(0), uint64(0)) }

// Clear removes all operations and totals after Stop.
func (t *OperationTables) Clear() error {
	err := errors.Join(layout.Clear(t.Open), layout.Clear(t.inner))
	for kind := range t.Totals.MaxEntries() {
		zeros := make([][]byte, ebpf.MustPossibleCPU())
		for i := range zeros {
			zeros[i] = make([]byte, t.Totals.ValueSize())
		}
		err = errors.Join(err, t.Totals.Put(kind, zeros))
	}
	return err
}

// Inner returns the map of the time inside calls, for layout.PurgeInner. It is nil unless the
// Pairing is Nested.
func (t *OperationTables) Inner() *ebpf.Map { return t.inner }

// ofKind adds the kind of the operations to the PID in R0.
func (b *builder) ofKind(of Operations) {
	switch {
	case of.Numbered:
		b.loadID(of.Kind)
		b.add(
			asm.Mov.Reg(asm.R1, regThread), asm.RSh.Imm(asm.R1, 32),
			asm.LSh.Imm(asm.R0, 32), asm.Or.Reg(asm.R0, asm.R1),
		)
	case of.Kind > 0:
		b.constant(asm.R1, int64(of.Kind)<<32)
		b.add(asm.Or.Reg(asm.R0, asm.R1))
	}
}

// total adds one to a total of the kind of the operations.
func (b *builder) total(of Operations, offset int16) {
	if !of.Numbered {
		kind := of.Kind
		if of.Summed {
			kind = 0
		}
		b.increment(of.Totals, kind, offset)
		return
	}
	b.loadID(of.Kind)
	b.add(asm.StoreMem(asm.RFP, b.word, asm.R0, asm.Word))
	b.lookup(of.Totals.FD(), b.word)
	b.add(
		asm.JEq.Imm(asm.R0, 0, labelExit),
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, offset),
	)
}
