package sdt

import (
	"bytes"
	"compress/zlib"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

const (
	maxDWARF      = 64 << 20
	maxExpansion  = 32 // of a compressed section, which real ones stay well below
	maxUnits      = 1 << 17
	maxAttributes = 128 // of one kind of entry
	maxAbbrevs    = 4 << 20
	maxString     = 64 << 10
)

// dwarfFile is a file's DWARF, which was found to be safe for debug/dwarf.
type dwarfFile struct {
	data   *dwarf.Data
	units  []unit
	ranges map[uint64][][2]uint64 // from .debug_aranges, by the unit's offset
}

// unit is where a unit's header and its first entry are in .debug_info.
type unit struct {
	offset, abbrev uint64
	entry          dwarf.Offset
}

// debugName reports whether a section has something that the types of parameters need.
func debugName(name string) bool {
	switch name {
	case ".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets", ".debug_addr", ".debug_aranges":
		return true
	}
	return false
}

// readDWARF returns nil if the file has none.
func (f *elfFile) readDWARF() (*dwarfFile, error) {
	data := map[string][]byte{}
	left := uint64(maxDWARF)
	for _, s := range f.debug {
		if s.kind == elf.SHT_NOBITS || data[s.name] != nil {
			continue
		}
		b, err := f.contents(s, left)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		left -= uint64(len(b))
		data[s.name] = b
	}
	info, abbrev := data[".debug_info"], data[".debug_abbrev"]
	if len(info) == 0 || len(abbrev) == 0 {
		return nil, nil
	}
	units, err := splitUnits(info, f.order)
	if err != nil {
		return nil, err
	}
	if len(abbrev) > maxAbbrevs {
		return nil, fmt.Errorf(".debug_abbrev: %d bytes exceed the limit of %d", len(abbrev), maxAbbrevs)
	}
	for _, name := range []string{".debug_str", ".debug_line_str"} {
		if err := checkStrings(data[name]); err != nil {
			return nil, fmt.Errorf("%s%w", name, err)
		}
	}
	if err := checkAbbrevs(abbrev, units); err != nil {
		return nil, err
	}
	d, err := dwarf.New(abbrev, nil, nil, info, nil, nil, nil, data[".debug_str"])
	if err != nil {
		return nil, err
	}
	for _, name := range []string{".debug_line_str", ".debug_str_offsets", ".debug_addr"} {
		if err := d.AddSection(name, data[name]); err != nil {
			return nil, err
		}
	}
	return &dwarfFile{d, units, readRanges(data[".debug_aranges"], f.order)}, nil
}

// contents returns the bytes of a section. It fails if there are more than limit.
func (f *elfFile) contents(s section, limit uint64) ([]byte, error) {
	if s.size > limit {
		return nil, fmt.Errorf("%d bytes exceed the limit of %d for all DWARF", s.size, maxDWARF)
	}
	raw, err := readRange(f.r, s.offset, s.size)
	if err != nil || s.flags&elf.SHF_COMPRESSED == 0 {
		return raw, err
	}
	header := f.pick(12, 24)
	if len(raw) < header {
		return nil, fmt.Errorf("%d bytes are too few for the header of a compressed section", len(raw))
	}
	if kind := elf.CompressionType(f.order.Uint32(raw)); kind != elf.COMPRESS_ZLIB {
		return nil, fmt.Errorf("compressed by %v, not zlib", kind)
	}
	size := uint64(f.order.Uint32(raw[4:]))
	if f.wide {
		size = f.order.Uint64(raw[8:])
	}
	if size > limit || size > maxExpansion*s.size {
		return nil, fmt.Errorf("%d bytes, compressed to %d, exceed the limit", size, s.size)
	}
	z, err := zlib.NewReader(bytes.NewReader(raw[header:]))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(int(size)) // at most maxExpansion times the compressed size
	n, err := io.Copy(&b, io.LimitReader(z, int64(size)))
	if err == nil && uint64(n) != size {
		err = io.ErrUnexpectedEOF
	}
	return b.Bytes(), err
}

var errUnit = errors.New("the header of a unit is damaged")

// splitUnits finds the units of .debug_info.
func splitUnits(info []byte, order binary.ByteOrder) ([]unit, error) {
	var units []unit
	for at := uint64(0); at < uint64(len(info)); {
		u, end, err := unitHeader(info, at, order)
		if err != nil {
			return nil, fmt.Errorf(".debug_info+%#x: %w", at, err)
		}
		if len(units) == maxUnits {
			return nil, fmt.Errorf(".debug_info: more than %d units", maxUnits)
		}
		units = append(units, u)
		at = end
	}
	return units, nil
}

// unitHeader reads the header of a unit, and returns where the unit ends.
func unitHeader(info []byte, at uint64, order binary.ByteOrder) (u unit, end uint64, err error) {
	b := info[at:]
	if len(b) < 24 {
		// No unit with an entry is shorter, but padded sections are.
		b = append(slices.Clone(b), make([]byte, 24)...)
	}
	length, word, size := uint64(order.Uint32(b)), uint64(4), uint64(4)
	if length == 0xffffffff {
		length, word, size = order.Uint64(b[4:]), 8, 12
	}
	if length > uint64(len(info))-at || size+length > uint64(len(info))-at {
		return u, 0, fmt.Errorf("%w: %d bytes exceed the section's", errUnit, length)
	}
	end = at + size + length
	u.offset = at
	version := order.Uint16(b[size:])
	abbrev, header := size+2, size+2+word+1
	if version >= 5 {
		abbrev, header = size+4, size+4+word
		// Type and skeleton units have further fields. Those of types are not needed.
		switch b[size+2] {
		case 4, 5: // DW_UT_skeleton, DW_UT_split_compile
			header += 8
		case 2, 6: // DW_UT_type, DW_UT_split_type
			header += 8 + word
		}
	}
	if version < 2 || version > 5 || at+header > end {
		return u, 0, fmt.Errorf("%w: %d bytes of version %d", errUnit, length, version)
	}
	u.abbrev = uint64(order.Uint32(b[abbrev:]))
	if word == 8 {
		u.abbrev = order.Uint64(b[abbrev:])
	}
	u.entry = dwarf.Offset(at + header)
	return u, end, nil
}

// checkStrings makes sure that a reference to a string, of which there are millions, does not cost
// as much as the whole section.
func checkStrings(b []byte) error {
	for at := 0; at < len(b); {
		n := bytes.IndexByte(b[at:], 0)
		if n < 0 {
			n = len(b) - at
		}
		if n > maxString {
			return fmt.Errorf("+%#x: a string is longer than %d bytes", at, maxString)
		}
		at += n + 1
	}
	return nil
}

// checkAbbrevs makes sure that .debug_abbrev does not multiply the time that .debug_info
// takes: tables may not overlap, and a kind of entry may not have thousands of attributes
// that occupy no bytes.
func checkAbbrevs(abbrev []byte, units []unit) error {
	tables := map[uint64]bool{}
	for _, u := range units {
		tables[u.abbrev] = true
	}
	end := uint64(0)
	for _, at := range slices.Sorted(maps.Keys(tables)) {
		if at < end {
			return fmt.Errorf(".debug_abbrev+%#x: tables overlap", at)
		}
		if at >= uint64(len(abbrev)) {
			return fmt.Errorf(".debug_abbrev+%#x: a table exceeds the section's %d bytes", at, len(abbrev))
		}
		rest, err := abbrevTable(abbrev[at:])
		if err != nil {
			return fmt.Errorf(".debug_abbrev+%#x: %w", at, err)
		}
		end = uint64(len(abbrev) - len(rest))
	}
	return nil
}

// abbrevTable reads a table and returns what follows it.
func abbrevTable(b []byte) ([]byte, error) {
	const implicitConst = 0x21 // a form whose value is in the table
	ok := true
	next := func() (n uint64) {
		if ok {
			n, b, ok = uleb(b)
		}
		return n
	}
	for ok && len(b) > 0 {
		if next() == 0 {
			break
		}
		next() // the tag
		if len(b) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		b = b[1:] // whether there are children
		for count := 0; ok; count++ {
			if count > maxAttributes {
				return nil, fmt.Errorf("an entry has more than %d attributes", maxAttributes)
			}
			name, form := next(), next()
			if name == 0 && form == 0 {
				break
			}
			if form == implicitConst {
				next()
			}
		}
	}
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	return b, nil
}

// readRanges reads .debug_aranges, of which everything is optional: what is damaged is left
// out, and the units are then searched.
func readRanges(b []byte, order binary.ByteOrder) map[uint64][][2]uint64 {
	ranges := map[uint64][][2]uint64{}
	for len(b) >= 12 {
		length := uint64(order.Uint32(b))
		if length == 0xffffffff || length < 8 || length > uint64(len(b)-4) {
			break // sets of 64-bit DWARF are rare, and only save time
		}
		set := b[:4+length]
		b = b[4+length:]
		offset, size := uint64(order.Uint32(set[6:])), int(set[10])
		if size != 4 && size != 8 || set[11] != 0 {
			continue
		}
		word := func(b []byte) uint64 {
			if size == 4 {
				return uint64(order.Uint32(b))
			}
			return order.Uint64(b)
		}
		// The pairs begin at a multiple of their size.
		for at := (12 + 2*size - 1) / (2 * size) * (2 * size); at+2*size <= len(set); at += 2 * size {
			low, count := word(set[at:]), word(set[at+size:])
			if count > 0 {
				ranges[offset] = append(ranges[offset], [2]uint64{low, low + count})
			}
		}
	}
	return ranges
}
