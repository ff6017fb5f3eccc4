//go:build linux

package bpf

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"

	"github.com/cilium/ebpf/asm"
)

// divide returns the expressions that are evaluated at the start, and the expressions that are
// evaluated at the end.
func divide(
	p *query.Pairing, start, end *Probe, all []string,
) (atStart, atEnd []string, err error) {
	for _, src := range all {
		_, startErr := start.Parse(src)
		_, endErr := end.Parse(src)
		switch {
		case startErr == nil && (p.AtStart || endErr != nil):
			atStart = append(atStart, src)
		case p.AtStart:
			return nil, nil, expr.With(startErr, query.OnlyStart)
		case endErr == nil:
			atEnd = append(atEnd, src)
		default:
			remark := fmt.Sprintf("neither %v nor %v has everything that this uses", start, end)
			return nil, nil, expr.With(expr.Nearer(endErr, startErr), remark)
		}
	}
	return atStart, atEnd, nil
}

// pairItem returns a part of the key that distinguishes the operations of a process.
func (p *Probe) pairItem(part string, offset int) (item, error) {
	if part == query.Call {
		address := expr.Type{Kind: expr.Uint, Size: 8, Unit: kind.Address}
		one := value.Item{Name: part, Type: address, Offset: offset, Size: 16}
		return item{Item: one}, nil
	}
	if part == query.Goroutine || part == query.Thread {
		number := expr.Type{Kind: expr.Uint, Size: 8}
		one := value.Item{Name: part, Type: number, Offset: offset, Size: 8}
		return item{Item: one}, nil
	}
	return p.keyItem(part, offset)
}

// sameKey returns the key of another start or end. It is an error if the two can never be equal.
func (l *Latency) sameKey(p *Probe) ([]item, error) {
	items, _, err := keyItems(l.pairing.Key, p.pairItem)
	if err != nil {
		return nil, err
	}
	for i := range items {
		here, there := &items[i].Item, &l.Key[i]
		isText, otherIsText := here.Type.Kind == expr.String, there.Type.Kind == expr.String
		if here.Size != there.Size || isText != otherIsText {
			return nil, query.KeyTypes(l.pairing.Key[i], here.Type, there.Type)
		}
	}
	return items, nil
}

// pairKey stores the key of an open operation on the stack.
func (b *builder) pairKey(items []item, key int16, of Operations) {
	// A process of another PID namespace has no PID in ours. Its key has its own PID.
	b.add(
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(regThread, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
	)
	b.ofKind(of)
	b.add(asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord))
	for i := range items {
		b.pairItem(&items[i], key)
	}
}

// wholeKey jumps to b.fault if a string in the key may have been cut: it would pair operations that
// differ.
func (b *builder) wholeKey(item *item) {
	s, isText := item.text()
	if isText && b.text(s).size == textSlot {
		b.add(
			asm.LoadMem(asm.R0, asm.RFP, b.text(s).length, asm.DWord),
			asm.JSGE.Imm(asm.R0, textRead, b.fault),
		)
	}
}

// pairItem stores a part of the key.
func (b *builder) pairItem(item *item, key int16) {
	switch {
	case item.expr != nil:
		b.keyItem(item, key)
		b.wholeKey(item)
		return
	case item.Name == query.Call:
		b.call(key+int16(item.Offset), labelForeign)
		return
	case item.Name == query.Thread:
		b.add(asm.Mov.Reg(asm.R0, regThread))
		b.extend(4, false)
	default:
		b.goroutine(labelForeign)
	}
	b.add(asm.StoreMem(asm.RFP, key+int16(item.Offset), asm.R0, asm.DWord))
}
