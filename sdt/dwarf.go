package sdt

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"fmt"
	"io"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
)

const (
	maxDWARF     = 64 << 20
	maxExpansion = 32 // limit for a compressed section; real sections stay well below
)

// debugName reports whether a section is needed for the types of parameters.
func debugName(name string) bool {
	switch name {
	case ".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets", ".debug_addr":
		return true
	}
	return isRanges(name)
}

func isRanges(name string) bool { return name == ".debug_ranges" || name == ".debug_rnglists" }

// readDWARF reads the DWARF of the file. It returns nil if the file has none.
func (f *elfFile) readDWARF() (*debuginfo.Data, error) {
	data := map[string][]byte{}
	left := uint64(maxDWARF)
	for _, ranges := range []bool{false, true} { // without ranges, more units are read
		for _, s := range f.debug {
			if s.kind == elf.SHT_NOBITS || data[s.name] != nil || isRanges(s.name) != ranges {
				continue
			}
			b, err := f.contents(s, left)
			if err == nil {
				left -= uint64(len(b))
				data[s.name] = b
			} else if !ranges {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return debuginfo.New(data, f.order)
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
