package debuginfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Header is the header of a unit. Its offsets are offsets in .debug_info, except Abbrev.
type Header struct {
	Offset, End uint64
	// Entry is the offset of the unit's first entry.
	Entry uint64
	// Abbrev is the offset of its abbreviations in .debug_abbrev.
	Abbrev  uint64
	Version int
	// IsType means that the unit describes a type, and has no code.
	IsType bool
	// Address and Word are the sizes of an address and of an offset.
	Address, Word int
}

var errUnit = errors.New("the header of a unit is damaged")

// HeaderSize is the number of bytes of a unit that ReadHeader reads.
const HeaderSize = 24

// ReadHeader reads the header of the unit at an offset of .debug_info, which has size bytes. b
// begins with the unit, and has at least HeaderSize bytes, unless the section ends before.
func ReadHeader(b []byte, at, size uint64, order binary.ByteOrder) (h Header, err error) {
	if len(b) < HeaderSize {
		// Pad the header: no unit with an entry is shorter, but a section may end in padding.
		b = append(slices.Clone(b), make([]byte, HeaderSize-len(b))...)
	}
	length, first := uint64(order.Uint32(b)), uint64(4)
	h.Offset, h.Word = at, 4
	if length == 0xffffffff {
		length, first, h.Word = order.Uint64(b[4:]), 12, 8
	}
	if length > size-at || first+length > size-at {
		return h, fmt.Errorf(".debug_info+%#x: %w: %d bytes exceed the section's", at, errUnit, length)
	}
	h.End, h.Version = at+first+length, int(order.Uint16(b[first:]))
	word := uint64(h.Word)
	abbrev, address, header := first+2, first+2+word, first+2+word+1
	if h.Version >= 5 {
		abbrev, address, header = first+4, first+3, first+4+word
		// Type and skeleton units have further fields. The fields of type units are not needed.
		switch b[first+2] {
		case 4, 5: // DW_UT_skeleton, DW_UT_split_compile
			header += 8
		case 2, 6: // DW_UT_type, DW_UT_split_type
			header += 8 + word
			h.IsType = true
		}
	}
	if h.Version < 2 || h.Version > 5 || at+header > h.End {
		return h, fmt.Errorf(".debug_info+%#x: %w: %d bytes of version %d", at, errUnit, length, h.Version)
	}
	h.Abbrev = uint64(order.Uint32(b[abbrev:]))
	if h.Word == 8 {
		h.Abbrev = order.Uint64(b[abbrev:])
	}
	h.Address, h.Entry = int(b[address]), at+header
	return h, nil
}
