package sdt

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
)

const (
	maxDWARF     = 64 << 20
	maxExpansion = 32 // of a compressed section, which real ones stay well below
)

// dwarfFile is a file's DWARF.
type dwarfFile struct {
	*debuginfo.Data
	ranges map[uint64][][2]uint64 // from .debug_aranges, by the unit's offset
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
	opened, err := debuginfo.New(data, f.order)
	if opened == nil || err != nil {
		return nil, err
	}
	return &dwarfFile{opened, readRanges(data[".debug_aranges"], f.order)}, nil
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
