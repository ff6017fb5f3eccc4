//go:build linux

package source

import "slices"

// Location is where a variable is while the addresses from From to To are executed.
type Location struct {
	// Expression is the DWARF expression of the place.
	Expression []byte
	// Fixed means that the variable has the same place everywhere. From and To are then 0.
	Fixed    bool
	From, To uint64
}

const (
	// maxExpression is the maximum size of the expression of a place in a list.
	maxExpression = 1 << 8
	// longestLocation is the maximum size of an entry of a list, with its expression.
	longestLocation = 1 + 3*10 + maxExpression
	// locationDefault is a kind of entries of .debug_loclists (DWARF 5, 7.7.3). Those below it are
	// the same as in .debug_rnglists, and those above it follow each other as they do there.
	locationDefault = 5
)

// location returns the place of a variable at an address, or nil if it has none there. ever is
// false if it has none anywhere.
func (t *Table) location(u *unit, v value, pc uint64) (at *Location, ever bool, err error) {
	switch v.form {
	case 0:
		return nil, false, nil
	case formExprloc, formBlock, formBlock1, formBlock2, formBlock4:
		if len(v.text) == 0 {
			return nil, false, nil
		}
		return &Location{Expression: slices.Clone(v.text), Fixed: true}, true, nil
	}
	if u.version >= 5 {
		at, err = t.locationList(u, v, pc)
	} else {
		at, err = t.oldLocations(u, v.n, pc)
	}
	return at, true, err
}

// oldLocations reads a list of DWARF 2 to 4.
func (t *Table) oldLocations(u *unit, at, pc uint64) (*Location, error) {
	base, size := u.low, uint64(u.address)
	for {
		b, err := t.loc.from(at, longestLocation)
		if err != nil {
			return nil, err
		}
		if err := t.budget.spend(spanMemory); err != nil {
			return nil, err
		}
		c := cursor{b: b, order: t.order}
		start, end := c.uint(u.address), c.uint(u.address)
		switch {
		case c.short:
			return nil, errDamaged
		case start == 0 && end == 0:
			return nil, nil
		case start == 1<<(8*size-1)<<1-1: // the next ranges have another base
			base = end
			at += uint64(c.at)
			continue
		}
		expression := c.block(c.uint(2))
		if c.short {
			return nil, errDamaged
		}
		if start, end = base+start, base+end; start <= pc && pc < end {
			return &Location{slices.Clone(expression), false, start, end}, nil
		}
		at += uint64(c.at)
	}
}

// locationList reads a list of DWARF 5.
func (t *Table) locationList(u *unit, v value, pc uint64) (*Location, error) {
	at := v.n
	if v.form == formLoclistx {
		offset, err := t.indirect(&t.loclists, u.locationBase, v.n, u.word)
		if err != nil {
			return nil, err
		}
		at = u.locationBase + offset
	}
	l := rangeReader{table: t, unit: u, base: u.low}
	for {
		b, err := t.loclists.from(at, longestLocation)
		if err != nil {
			return nil, err
		}
		if err := t.budget.spend(spanMemory); err != nil {
			return nil, err
		}
		l.cursor = cursor{b: b, order: t.order}
		kind := l.uint(1)
		if kind > locationDefault {
			kind--
		} else if kind == locationDefault {
			return nil, errDamaged // the compiler does not write it
		}
		start, end := l.span(kind)
		var expression []byte
		if kind != rangeEnd && kind != rangeBasex && kind != rangeBase {
			expression = l.block(l.uleb())
		}
		switch {
		case l.short:
			return nil, errDamaged
		case l.err != nil:
			return nil, l.err
		case kind == rangeEnd:
			return nil, nil
		case start <= pc && pc < end:
			return &Location{slices.Clone(expression), false, start, end}, nil
		}
		at += uint64(l.at)
	}
}
