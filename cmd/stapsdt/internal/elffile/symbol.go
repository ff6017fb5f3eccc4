package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxTable is how large a table of symbols, and one of their names, may be. That of the largest
// browsers has 40 MB.
const maxTable = 64 << 20

// symbolSize is the size of an Elf64_Sym.
const symbolSize = 24

// Symbol returns the value of a symbol that a file of 64 bits defines, and how many bytes it has
// read to find it. It keeps nothing of the tables in memory.
func Symbol(f *elf.File, name string) (value uint64, read uint64, err error) {
	for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		s := f.SectionByType(kind)
		if s == nil || f.Class != elf.ELFCLASS64 || int(s.Link) >= len(f.Sections) {
			continue
		}
		names := f.Sections[s.Link]
		if s.Size > maxTable || names.Size > maxTable || (s.Flags|names.Flags)&elf.SHF_COMPRESSED != 0 {
			return 0, read, fmt.Errorf("the symbols' %d and the names' %d bytes exceed the limit of %d", s.Size, names.Size, maxTable)
		}
		read += s.Size + names.Size
		offsets, err := occurrences(io.NewSectionReader(names, 0, int64(names.Size)), name)
		if err != nil || len(offsets) == 0 {
			continue
		}
		if value, ok := defined(f, io.NewSectionReader(s, 0, int64(s.Size)), offsets); ok {
			return value, read, nil
		}
	}
	return 0, read, fmt.Errorf("the symbol %.64q is not in the file, which is stripped", name)
}

// maxSymbol is how long the name of a symbol may be. Those of C++ can have some thousand bytes.
const maxSymbol = 8 << 10

// Symbols calls visit for the symbols of a table, whose names share their memory. It is an error if
// there is no table, or if the symbols or their names take more than a limit.
func Symbols(f *elf.File, kind elf.SectionType, limit uint64, visit func(*elf.Symbol)) error {
	s := f.SectionByType(kind)
	if s == nil || int(s.Link) >= len(f.Sections) {
		return elf.ErrNoSymbols
	}
	strs := f.Sections[s.Link]
	if max(s.Size, strs.Size) > limit || (s.Flags|strs.Flags)&elf.SHF_COMPRESSED != 0 {
		return errTooLarge
	}
	var names strings.Builder // not as large as the header claims, but as the file is
	if _, err := io.Copy(&names, io.NewSectionReader(strs, 0, int64(strs.Size))); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	size, decode := symbolSize, decode64
	if f.Class == elf.ELFCLASS32 {
		size, decode = elf.Sym32Size, decode32
	}
	first := true // which is null
	return blocks(io.NewSectionReader(s, 0, int64(s.Size)), 0, func(_ int, b []byte) bool {
		for ; len(b) >= size; b = b[size:] {
			symbol := decode(f.ByteOrder, b)
			at := f.ByteOrder.Uint32(b)
			if !first && uint64(at) < uint64(names.Len()) {
				name := names.String()[at:min(names.Len(), int(at)+maxSymbol)]
				symbol.Name, _, _ = strings.Cut(name, "\x00")
				visit(&symbol)
			}
			first = false
		}
		return true
	})
}

func decode64(order binary.ByteOrder, b []byte) elf.Symbol {
	return elf.Symbol{Info: b[4], Other: b[5], Section: elf.SectionIndex(order.Uint16(b[6:])), Value: order.Uint64(b[8:]), Size: order.Uint64(b[16:])}
}

func decode32(order binary.ByteOrder, b []byte) elf.Symbol {
	return elf.Symbol{Info: b[12], Other: b[13], Section: elf.SectionIndex(order.Uint16(b[14:])), Value: uint64(order.Uint32(b[4:])), Size: uint64(order.Uint32(b[8:]))}
}

// blocks calls visit for the contents of r, of which each block repeats the last bytes of the one
// before, until it returns false. The number of these bytes is overlap.
func blocks(r io.Reader, overlap int, visit func(at int, b []byte) bool) error {
	buffer := make([]byte, 64*symbolSize<<10)
	have, at := 0, 0
	for {
		n, err := io.ReadFull(r, buffer[have:])
		if n > 0 && !visit(at, buffer[:have+n]) {
			return nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
		at += have + n - overlap
		have = copy(buffer, buffer[have+n-overlap:have+n])
	}
}

// maxOccurrences is how many names may end in one that is looked for.
const maxOccurrences = 1 << 10

// occurrences returns where names end in a name, since a table need not have a name again that
// another one ends in.
func occurrences(r io.Reader, name string) (map[uint32]bool, error) {
	all := map[uint32]bool{}
	want := append([]byte(name), 0)
	err := blocks(r, len(want)-1, func(at int, b []byte) bool {
		for from := 0; len(all) < maxOccurrences; {
			i := bytes.Index(b[from:], want)
			if i < 0 {
				return true
			}
			all[uint32(at+from+i)] = true
			from += i + 1
		}
		return false
	})
	return all, err
}

// defined returns the value of the first symbol whose name is at one of the offsets.
func defined(f *elf.File, r io.Reader, names map[uint32]bool) (value uint64, found bool) {
	_ = blocks(r, 0, func(_ int, b []byte) bool {
		for ; len(b) >= symbolSize && !found; b = b[symbolSize:] {
			section := elf.SectionIndex(f.ByteOrder.Uint16(b[6:]))
			if section != elf.SHN_UNDEF && elf.ST_TYPE(b[4]) != elf.STT_TLS && names[f.ByteOrder.Uint32(b)] {
				value, found = f.ByteOrder.Uint64(b[8:]), true
			}
		}
		return !found
	})
	return value, found
}
