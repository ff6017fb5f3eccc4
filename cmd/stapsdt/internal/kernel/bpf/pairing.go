//go:build linux

package bpf

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
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

// pairKey returns the value that distinguishes the operations of a process.
func (p *Probe) pairKey(key string) (item, error) {
	if key == query.Call {
		address := expr.Type{Kind: expr.Uint, Size: 8, Unit: kind.Address}
		one := value.Item{Name: key, Type: address, Offset: layout.KeyHeader, Size: 16}
		return item{Item: one}, nil
	}
	if key == query.Goroutine || key == query.Thread {
		number := expr.Type{Kind: expr.Uint, Size: 8}
		one := value.Item{Name: key, Type: number, Offset: layout.KeyHeader, Size: 8}
		return item{Item: one}, nil
	}
	return p.keyItem(key, layout.KeyHeader)
}

// sameKey returns the key of another start or end. It is an error if the two can never be equal.
func (l *Latency) sameKey(p *Probe) (item, error) {
	item, err := p.pairKey(l.pairing.Key)
	if err != nil {
		return item, err
	}
	isText, keyIsText := item.Type.Kind == expr.String, l.Key.Type.Kind == expr.String
	if item.Size != l.Key.Size || isText != keyIsText {
		return item, fmt.Errorf("the key %s is a %v here, but a %v at another probe", l.pairing.Key, item.Type, l.Key.Type)
	}
	return item, nil
}

// pairKey stores the key of an open operation on the stack.
func (b *builder) pairKey(item *item, key int16, kind uint32) {
	// A process of another PID namespace has no PID in ours. Its key has its own PID.
	b.add(
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(regThread, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
	)
	if kind > 0 {
		b.constant(asm.R1, int64(kind)<<32)
		b.add(asm.Or.Reg(asm.R0, asm.R1))
	}
	b.add(asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord))
	switch {
	case item.expr != nil:
		b.keyItem(item, key)
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
