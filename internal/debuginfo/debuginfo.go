// Package debuginfo opens untrusted DWARF with debug/dwarf, within limits. Without them, a hostile
// file could make it take any amount of time and memory.
package debuginfo

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

const (
	// MaxUnits is the maximum number of units.
	MaxUnits      = 1 << 17
	maxAttributes = 128 // attributes of one kind of entry
	maxAbbrevs    = 4 << 20
	// MaxString is the maximum length of a string in bytes.
	MaxString = 64 << 10
)

// Data is DWARF that was checked. It is safe for debug/dwarf if its entries are read by Entries.
type Data struct {
	*dwarf.Data
	Units []Unit
}

// Unit locates a unit's header and its first entry in .debug_info.
type Unit struct {
	Offset uint64
	Entry  dwarf.Offset

	abbrev uint64
}

// sections are the sections that describe types and the places of functions. Ranges are last:
// without them, more units are read.
var sections = []string{".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets", ".debug_addr", ".debug_ranges", ".debug_rnglists"}

// In reports whether a file has DWARF.
func In(f *elf.File) bool {
	s := elffile.DebugSection(f, sections[0])
	return s != nil && s.Size > 0
}

// Read reads the DWARF of a file, which may have at most limit bytes. It returns nil if there is
// none.
func Read(f *elf.File, limit uint64) (*Data, error) {
	contents := map[string][]byte{}
	for _, name := range sections {
		s := elffile.DebugSection(f, name)
		if s == nil {
			continue
		}
		data, err := elffile.Data(s, limit)
		if err == nil {
			limit -= uint64(len(data))
			contents[name] = data
		} else if name != ".debug_ranges" && name != ".debug_rnglists" {
			return nil, err
		}
	}
	info, abbrev := contents[".debug_info"], contents[".debug_abbrev"]
	if len(info) == 0 || len(abbrev) == 0 {
		return nil, nil
	}
	units, err := splitUnits(info, f.ByteOrder)
	if err != nil {
		return nil, err
	}
	if len(abbrev) > maxAbbrevs {
		return nil, fmt.Errorf(".debug_abbrev: %d bytes exceed the limit of %d", len(abbrev), maxAbbrevs)
	}
	for _, name := range []string{".debug_str", ".debug_line_str"} {
		if err := checkStrings(contents[name]); err != nil {
			return nil, fmt.Errorf("%s%w", name, err)
		}
	}
	if err := checkAbbrevs(abbrev, units); err != nil {
		return nil, err
	}
	d, err := dwarf.New(abbrev, nil, nil, info, nil, nil, contents[".debug_ranges"], contents[".debug_str"])
	if err != nil {
		return nil, err
	}
	for _, name := range []string{".debug_line_str", ".debug_str_offsets", ".debug_addr", ".debug_rnglists"} {
		if err := d.AddSection(name, contents[name]); err != nil {
			return nil, err
		}
	}
	return &Data{d, units}, nil
}

// splitUnits finds the units of .debug_info.
func splitUnits(info []byte, order binary.ByteOrder) ([]Unit, error) {
	var units []Unit
	for at := uint64(0); at < uint64(len(info)); {
		h, err := ReadHeader(info[at:], at, uint64(len(info)), order)
		if err != nil {
			return nil, err
		}
		if len(units) == MaxUnits {
			return nil, fmt.Errorf(".debug_info: more than %d units", MaxUnits)
		}
		units = append(units, Unit{at, dwarf.Offset(h.Entry), h.Abbrev})
		at = h.End
	}
	return units, nil
}

// checkStrings makes sure that a reference to a string does not cost as much as the whole section,
// because there are millions of references.
func checkStrings(b []byte) error {
	for at := 0; at < len(b); {
		n := bytes.IndexByte(b[at:], 0)
		if n < 0 {
			n = len(b) - at
		}
		if n > MaxString {
			return fmt.Errorf("+%#x: a string is longer than %d bytes", at, MaxString)
		}
		at += n + 1
	}
	return nil
}

// checkAbbrevs makes sure that .debug_abbrev does not multiply the time that .debug_info
// takes: tables may not overlap, and a kind of entry may not have thousands of attributes
// that occupy no bytes.
func checkAbbrevs(abbrev []byte, units []Unit) error {
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

// abbrevTable reads a table and returns the bytes after it.
func abbrevTable(b []byte) ([]byte, error) {
	const implicitConst = 0x21 // a form whose value is in the table
	ok := true
	next := func() (n uint64) {
		if ok {
			n, b, ok = ULEB(b)
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

// SLEB reads a signed LEB128 number.
func SLEB(b []byte) (n int64, rest []byte, ok bool) {
	u, rest, ok := ULEB(b)
	size := len(b) - len(rest)
	if bits := 7 * size; ok && bits < 64 && b[size-1]&0x40 != 0 {
		u |= ^uint64(0) << bits
	}
	return int64(u), rest, ok
}

// ULEB reads an unsigned LEB128 number.
func ULEB(b []byte) (n uint64, rest []byte, ok bool) {
	for i, c := range b {
		if i == 10 {
			break
		}
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}
