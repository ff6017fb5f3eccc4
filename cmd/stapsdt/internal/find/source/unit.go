//go:build linux

package source

import (
	"cmp"
	"sort"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
)

// unit is a unit of .debug_info.
type unit struct {
	encoding
	offset, end, entry, abbrev uint64
	// low is the address to which ranges are relative, and the bases are where the unit's part of a
	// section begins.
	low, stringBase, addressBase, rangeBase, locationBase uint64

	// split means that the functions are described in another file.
	split            bool
	lines, directory value
}

const (
	unitMemory = 200
	// maxEntry is the maximum size of an entry that is read on its own.
	maxEntry = 64 << 10
)

// index reads the first entries of all units. After an error, units that were read before it are
// kept, unless the file could not be read.
func (t *Table) index() error {
	if t.indexed {
		return nil
	}
	t.units, t.code = nil, nil
	if err := t.info.open(); err != nil {
		return err
	}
	for at := uint64(0); at < t.info.size; {
		u, err := t.readUnit(at)
		if failure(err) != nil {
			return err
		}
		if u == nil || len(t.units) == debuginfo.MaxUnits {
			break
		}
		t.units = append(t.units, u)
		at = u.end
	}
	t.code.sort()
	t.indexed = true
	return nil
}

// readUnit reads the header and the first entry of a unit. It returns nil if the header is damaged.
func (t *Table) readUnit(at uint64) (*unit, error) {
	b, err := t.info.from(at, debuginfo.HeaderSize)
	if err != nil {
		return nil, err
	}
	h, err := debuginfo.ReadHeader(b, at, t.info.size, t.order)
	if err != nil {
		return nil, errDamaged
	}
	u := &unit{
		encoding: encoding{h.Version, h.Address, h.Word},
		offset:   h.Offset, end: h.End, entry: h.Entry, abbrev: h.Abbrev,
	}
	if h.IsType || h.Entry >= h.End || h.Address != 4 && h.Address != 8 {
		return u, nil
	}
	if err := cmp.Or(t.budget.hold(unitMemory), t.budget.spend(unitMemory)); err != nil {
		return nil, err
	}
	return u, failure(t.readRoot(u))
}

// readRoot reads the first entry of a unit.
func (t *Table) readRoot(u *unit) error {
	b, err := t.info.from(u.entry, min(u.end-u.entry, 16))
	if err != nil {
		return err
	}
	c := cursor{b: b, order: t.order}
	code := c.uleb()
	if c.short || code == 0 {
		return errDamaged
	}
	all, err := t.abbrevsOf(u, code)
	if err != nil {
		return err
	}
	var e entry
	if err := t.readAt(u, all, u.entry, &e); err != nil {
		return err
	}
	const header = 8 // of .debug_str_offsets, if nothing says where the unit's part begins
	u.stringBase = uint64(header * u.word / 4)
	for s, to := range map[slot]*uint64{
		slotStringBase: &u.stringBase, slotAddressBase: &u.addressBase, slotRangeBase: &u.rangeBase,
		slotLocationBase: &u.locationBase,
	} {
		if e.has(s) {
			*to = e.values[s].n
		}
	}
	u.split = e.has(slotSplit)
	u.lines, u.directory = e.values[slotLines], e.values[slotDirectory]
	if e.has(slotLow) {
		if u.low, err = t.address(u, e.values[slotLow]); err != nil {
			return err
		}
	}
	return t.rangesOf(u, &e, func(start, end uint64) {
		if t.budget.hold(2*spanMemory) == nil { // twice, because the list grows
			t.code = append(t.code, span[*unit]{start: start, end: end, of: u})
		}
	})
}

// readAt reads the entry at an offset of .debug_info.
func (t *Table) readAt(u *unit, all *abbrevs, at uint64, out *entry) error {
	if at < u.entry || at >= u.end {
		return errDamaged
	}
	for n := uint64(window / 2); ; n = maxEntry {
		n = min(n, u.end-at)
		b, err := t.info.from(at, n)
		if err != nil {
			return err
		}
		c := cursor{b: b[:min(uint64(len(b)), u.end-at, maxEntry)], order: t.order}
		cost := c.readEntry(all, u.encoding, out, nil)
		if err := t.budget.spend(cost); err != nil {
			return err
		}
		if !c.short {
			return nil
		}
		if n == u.end-at || n == maxEntry {
			return errDamaged
		}
	}
}

// unitAt returns the unit that contains an offset of .debug_info, or nil.
func (t *Table) unitAt(at uint64) *unit {
	i := sort.Search(len(t.units), func(i int) bool { return t.units[i].end > at })
	if i == len(t.units) || at < t.units[i].entry {
		return nil
	}
	return t.units[i]
}
