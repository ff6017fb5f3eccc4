//go:build linux

package bpf

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
)

// keyItems returns the values that make up a key, and the size of the key. item returns the value
// of one expression at an offset of the key.
func keyItems(
	by []string, item func(src string, offset int) (item, error),
) (items []item, size int, err error) {
	size = layout.KeyHeader
	for _, src := range by {
		one, err := item(src, size)
		if err != nil {
			return nil, 0, err
		}
		size += one.Size
		items = append(items, one)
	}
	return items, size, nil
}

// keyItem returns the value of an expression, stored at an offset of a key.
func (p *Probe) keyItem(src string, offset int) (item, error) {
	e, err := p.Parse(src)
	if err != nil {
		return item{}, err
	}
	one := p.item(e)
	if one.Type.Kind == expr.String && e.Root.Op != expr.Load {
		return item{}, &expr.Error{Src: src, Pos: e.Root.Pos, Msg: "this cannot be evaluated in the kernel: a text must be a variable"}
	}
	one.Offset, one.Size = offset, 8
	switch {
	case one.Type.Kind == expr.String && one.source.kind == fromComm:
		one.Size, one.TextSize = layout.CommSize, layout.CommSize
	case one.Type.Kind == expr.String:
		one.Size, one.TextSize = textSlot, value.TextSize
	}
	return one, nil
}

// reserve records which strings are read directly into a key.
func (b *builder) reserve(items []item, key int16) {
	for _, item := range items {
		if s, ok := item.text(); ok {
			if _, taken := b.place[s]; !taken {
				b.place[s] = key + int16(item.Offset)
			}
		}
	}
}

// text returns the source of an item that is a string.
func (i *item) text() (origin, bool) {
	if i.Type.Kind != expr.String {
		return origin{}, false
	}
	return i.expr.vars.sources[i.expr.Root.Var], true
}

// keyItem evaluates an item and stores it in the key.
func (b *builder) keyItem(item *item, key int16) {
	at := key + int16(item.Offset)
	s, isText := item.text()
	if !isText {
		b.evaluate(item.expr)
		b.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
		return
	}
	b.fetch(item.expr, item.expr.Root)
	if t := b.text(s); t.at != at { // the key contains the same string twice
		b.copy(asm.RFP, at, asm.RFP, t.at, t.size)
	}
}
