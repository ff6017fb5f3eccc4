//go:build linux

package source

import (
	"debug/elf"
	"encoding/binary"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// Frame is a function at an address.
type Frame struct {
	// Name is the name of the function as symbols have it, or "" if only its position is known.
	Name string
	// File and Line are the position of the call, or of the address in the innermost function. File
	// is "" and Line is 0 if they are unknown.
	File string
	Line int
}

// Table finds functions in the DWARF of a file. It must be used by one goroutine only.
type Table struct {
	order  binary.ByteOrder
	budget *Budget

	info, abbrev, str, lineStr, strOffsets, addr, ranges, rnglists, line, loc, loclists section

	indexed bool
	units   []*unit
	// code are the ranges of addresses that units have, by their first address.
	code spans[*unit]

	abbrevs map[abbrevsKey]*abbrevs
	codes   map[*unit]*code
}

// New returns a table for a file, or nil if the file has no DWARF. Nothing of the DWARF is read
// before the first Lookup.
func New(f *elf.File, budget *Budget) *Table {
	t := &Table{
		order: f.ByteOrder, budget: budget,
		abbrevs: map[abbrevsKey]*abbrevs{}, codes: map[*unit]*code{},
	}
	for name, s := range map[string]*section{
		".debug_info": &t.info, ".debug_abbrev": &t.abbrev, ".debug_str": &t.str,
		".debug_line_str": &t.lineStr, ".debug_str_offsets": &t.strOffsets, ".debug_addr": &t.addr,
		".debug_ranges": &t.ranges, ".debug_rnglists": &t.rnglists, ".debug_line": &t.line,
		".debug_loc": &t.loc, ".debug_loclists": &t.loclists,
	} {
		*s = section{elf: elffile.DebugSection(f, name), budget: budget}
	}
	if t.info.elf == nil || t.abbrev.elf == nil {
		return nil
	}
	return t
}

// Lookup returns the functions at an address of the file, the inlined ones first. The last one
// contains the address. Lookup returns nil if the DWARF does not describe the address or is
// damaged, or if the budget is used up. It returns an error if reading the file has failed.
func (t *Table) Lookup(pc uint64) ([]Frame, error) {
	if err := t.index(); err != nil {
		return nil, failure(err)
	}
	for _, u := range t.code.at(pc) {
		c, err := t.load(u)
		if err == nil {
			var frames []Frame
			if frames, err = t.frames(c, pc); len(frames) > 0 && err == nil {
				return frames, nil
			}
		}
		if failure(err) != nil {
			return nil, err
		}
	}
	return nil, nil
}

// failure returns an error that is not due to the contents of the file.
func failure(err error) error {
	if err == errDamaged || err == errBudget {
		return nil
	}
	return err
}
