//go:build linux

package source

// rangesOf calls visit with the ranges of addresses of an entry.
func (t *Table) rangesOf(u *unit, e *entry, visit func(start, end uint64)) error {
	used := func(start, end uint64) {
		// Linkers leave the code of functions that they have removed at address 0.
		if start != 0 && start < end {
			visit(start, end)
		}
	}
	switch v := e.values[slotRanges]; {
	case v.form != 0 && u.version >= 5:
		return t.rangeList(u, v, used)
	case v.form != 0:
		return t.oldRanges(u, v.n, used)
	case !e.has(slotLow) || !e.has(slotHigh):
		return nil
	}
	start, err := t.address(u, e.values[slotLow])
	if err != nil {
		return err
	}
	end := start + e.values[slotHigh].n
	if absolute, err := t.address(u, e.values[slotHigh]); err == nil {
		end = absolute
	} else if err != errDamaged {
		return err
	}
	used(start, end)
	return nil
}

// oldRanges reads a list of DWARF 2 to 4.
func (t *Table) oldRanges(u *unit, at uint64, visit func(start, end uint64)) error {
	base, size := u.low, uint64(u.address)
	for ; ; at += 2 * size {
		b, err := t.ranges.bytes(at, 2*size)
		if err != nil {
			return err
		}
		if err := t.budget.spend(spanMemory); err != nil {
			return err
		}
		c := cursor{b: b, order: t.order}
		start, end := c.uint(u.address), c.uint(u.address)
		switch {
		case start == 0 && end == 0:
			return nil
		case start == 1<<(8*size-1)<<1-1: // the next ranges have another base
			base = end
		default:
			visit(base+start, base+end)
		}
	}
}

// Kinds of entries of .debug_rnglists (DWARF 5, 7.25).
const (
	rangeEnd = iota
	rangeBasex
	rangeStartxEndx
	rangeStartxLength
	rangeOffsets
	rangeBase
	rangeStartEnd
	rangeStartLength
)

// rangeList reads a list of DWARF 5.
func (t *Table) rangeList(u *unit, v value, visit func(start, end uint64)) error {
	at := v.n
	if v.form == formRnglistx {
		offset, err := t.indirect(&t.rnglists, u.rangeBase, v.n, u.word)
		if err != nil {
			return err
		}
		at = u.rangeBase + offset
	}
	l := rangeReader{table: t, unit: u, base: u.low}
	const longest = 1 + 2*10 // bytes of an entry
	for {
		b, err := t.rnglists.from(at, longest)
		if err != nil {
			return err
		}
		if err := t.budget.spend(spanMemory); err != nil {
			return err
		}
		l.cursor = cursor{b: b[:min(len(b), longest)], order: t.order}
		more, err := l.next(visit)
		if err != nil || !more {
			return err
		}
		at += uint64(l.at)
	}
}

// rangeReader reads a list of ranges of DWARF 5.
type rangeReader struct {
	cursor
	table *Table
	unit  *unit
	base  uint64
	err   error
}

// next reads an entry, and reports whether it was not the end.
func (l *rangeReader) next(visit func(start, end uint64)) (more bool, err error) {
	kind := l.uint(1)
	start, end := l.span(kind)
	switch {
	case l.short:
		return false, errDamaged
	case kind == rangeEnd:
		return false, nil
	case l.err == nil && start < end:
		visit(start, end)
	}
	return true, l.err
}

// span reads the range of an entry of a kind, which is empty if the entry changes the base.
func (l *rangeReader) span(kind uint64) (start, end uint64) {
	switch kind {
	case rangeEnd:
	case rangeBasex:
		l.base = l.index()
	case rangeBase:
		l.base = l.uint(l.unit.address)
	case rangeStartxEndx:
		start, end = l.index(), l.index()
	case rangeStartxLength:
		start = l.index()
		end = start + l.uleb()
	case rangeOffsets:
		start, end = l.base+l.uleb(), l.base+l.uleb()
	case rangeStartEnd:
		start, end = l.uint(l.unit.address), l.uint(l.unit.address)
	case rangeStartLength:
		start = l.uint(l.unit.address)
		end = start + l.uleb()
	default:
		l.end()
	}
	return start, end
}

// index reads an index in .debug_addr, and returns the address.
func (l *rangeReader) index() uint64 {
	address, err := l.table.indirect(&l.table.addr, l.unit.addressBase, l.uleb(), l.unit.address)
	if l.err == nil {
		l.err = err
	}
	return address
}
