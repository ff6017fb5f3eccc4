//go:build linux

package source

// address returns the value of an attribute that is an address.
func (t *Table) address(u *unit, v value) (uint64, error) {
	switch v.form {
	case formAddr:
		return v.n, nil
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return t.indirect(&t.addr, u.addressBase, v.n, u.address)
	}
	return 0, errDamaged
}

// indirect returns the number with an index in the part of a section that begins at a base.
func (t *Table) indirect(s *section, base, index uint64, size int) (uint64, error) {
	if index > maxOffset || base > maxOffset {
		return 0, errDamaged
	}
	b, err := s.bytes(base+index*uint64(size), uint64(size))
	if err != nil {
		return 0, err
	}
	c := cursor{b: b, order: t.order}
	return c.uint(size), nil
}

// maxOffset is larger than every offset and index in a section. Their sum does not overflow.
const maxOffset = 1 << 48

// text returns the value of an attribute that is a string.
func (t *Table) text(u *unit, v value) (string, error) {
	switch v.form {
	case formString:
		text := string(v.text[:min(len(v.text), maxString)])
		return text, t.budget.spend(stringWork * len(text))
	case formStrp:
		return t.str.text(v.n)
	case formLineStrp:
		return t.lineStr.text(v.n)
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		at, err := t.indirect(&t.strOffsets, u.stringBase, v.n, u.word)
		if err != nil {
			return "", err
		}
		return t.str.text(at)
	}
	return "", errDamaged
}
