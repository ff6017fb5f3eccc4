//go:build linux

package bpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// shown reports whether argument i of the start need not be recorded: it is the key, is in Open, or
// is the ID of the parent.
func (l *Latency) shown(start *Probe, i int) bool {
	is := func(src string) bool { return src == start.ArgName(i) || src == fmt.Sprintf("arg%d", i) }
	named := func(item value.Item) bool { return is(item.Name) }
	return slices.ContainsFunc(l.pairing.Key, is) || is("parent") || slices.ContainsFunc(l.Open, named)
}

// details appends to Open the items that describe the operations of a start, as long as the stack
// and a value of most bytes have room. used is the number of bytes that Open takes already.
func (l *Latency) details(start *Probe, used, most int) {
	for _, src := range l.pairing.By {
		if _, asked := l.atStart[src]; !asked {
			used = l.detail(start, src, used, most)
		}
	}
	l.OpenBy = len(l.Open)
	// Their columns have the order of By.
	slices.SortFunc(l.Open, func(a, b value.Item) int {
		return slices.Index(l.pairing.By, a.Name) - slices.Index(l.pairing.By, b.Name)
	})
	asked := map[string]int{}
	for i, item := range l.Open {
		if !l.isDetail(item.Name) {
			asked[item.Name] = i
		}
	}
	l.atStart = asked
	for i := range start.Args {
		if name := start.ArgName(i); !l.shown(start, i) {
			used = l.detail(start, name, used, most)
		}
	}
}

// detail appends an expression to Open if the start can evaluate it and there is room. It returns
// the new size of Open in bytes.
func (l *Latency) detail(start *Probe, src string, used, most int) int {
	if !l.pairing.Details {
		return used
	}
	item, err := start.keyItem(src, used)
	needed := max(used+item.Size-l.valueSize, 0) // the bytes beyond the size of the value
	if err != nil || start.hidden(item.expr) || len(l.Open) == layout.MaxKnown ||
		used+item.Size > most ||
		l.startStack()+needed > stackSize {
		return used
	}
	l.Open = append(l.Open, item.Item)
	used += item.Size
	l.valueSize = max(l.valueSize, used)
	return used
}

// startStack estimates the stack usage of the start program, with one string for each condition.
// The scratch has room for the first part of the key.
func (l *Latency) startStack() int {
	const scratch, fetched = 128, 16 // fetched has room for an address and a length
	return scratch + l.keySize + l.valueSize + fetched*(len(l.Key)-1+len(l.atStart)) +
		textSlot*len(l.startWhere)
}

// openItem stores the i-th item of Open in the value. It leaves out a detail that cannot be
// evaluated.
func (b *builder) openItem(l *Latency, item *item, i int, value int16) {
	if item.expr == nil { // this start does not have it
		return
	}
	known := func() {
		b.keyItem(item, value)
		b.keepLength(item, value)
		if i >= layout.MaxKnown {
			return
		}
		b.add(
			asm.LoadMem(asm.R0, asm.RFP, value+layout.OpenKnown, asm.DWord),
			asm.Or.Imm(asm.R0, 1<<i),
			asm.StoreMem(asm.RFP, value+layout.OpenKnown, asm.R0, asm.DWord),
		)
	}
	if !l.isDetail(item.Name) {
		known()
		return
	}
	next := b.fresh("detail")
	b.scope(func() {
		b.fault = next
		known()
	})
	b.label(next)
}

// isDetail reports whether an item of Open is shown only while an operation is open.
func (l *Latency) isDetail(name string) bool {
	_, asked := l.atStart[name]
	return !asked
}

// hidden reports whether an expression is only an argument that the kernel does not show.
func (p *Probe) hidden(e *Expr) bool {
	if e == nil || e.Root.Op != expr.Load {
		return false
	}
	s := e.vars.sources[e.Root.Var]
	return (s.kind == fromArg || s.kind == fromText) &&
		(p.arg(s.arg).Err != nil || p.arg(s.arg).Operand.Kind == sdt.OperandVector)
}
