package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxTable is the maximum size of a symbol table, and of a table of symbol names. The largest
// browsers have tables of 40 MB.
const maxTable = 64 << 20

// symbolSize is the size of an Elf64_Sym.
const symbolSize = 24

// Symbol returns the value of a symbol that a file defines, and the number of bytes that it has
// read to find it. It keeps nothing of the tables in memory. It returns an error if the file
// defines several symbols of that name, such as static ones of several sources, because the choice
// would be ambiguous.
func Symbol(f *elf.File, name string) (value uint64, read uint64, err error) {
	for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		s := f.SectionByType(kind)
		if s == nil || int(s.Link) >= len(f.Sections) {
			continue
		}
		names := f.Sections[s.Link]
		if s.Size > maxTable || names.Size > maxTable ||
			(s.Flags|names.Flags)&elf.SHF_COMPRESSED != 0 {
			return 0, read, fmt.Errorf("the symbols' %d and the names' %d bytes exceed the limit of %d", s.Size, names.Size, maxTable)
		}
		read += s.Size + names.Size
		offsets, err := occurrences(io.NewSectionReader(names, 0, int64(names.Size)), name)
		if err != nil || len(offsets) == 0 {
			continue
		}
		table := io.NewSectionReader(s, 0, int64(s.Size))
		switch values := defined(f, table, offsets); len(values) {
		case 0:
		case 1:
			return values[0], read, nil
		default:
			return 0, read, fmt.Errorf("several symbols of the file are named %.64q", name)
		}
	}
	return 0, read, fmt.Errorf("the symbol %.64q is not in the file: it was stripped", name)
}

// maxSymbol is the maximum length of a symbol's name. Names in C++ can have some thousand bytes.
const maxSymbol = 8 << 10

// Symbols calls visit for the symbols of a table. Their names share memory. It returns an error if
// there is no table, or if the symbols or their names exceed the limit.
func Symbols(f *elf.File, kind elf.SectionType, limit uint64, visit func(*elf.Symbol)) error {
	s := f.SectionByType(kind)
	if s == nil || int(s.Link) >= len(f.Sections) {
		return elf.ErrNoSymbols
	}
	strs := f.Sections[s.Link]
	if max(s.Size, strs.Size) > limit || (s.Flags|strs.Flags)&elf.SHF_COMPRESSED != 0 {
		return errTooLarge
	}
	// grows with the file's content, not to the size that the header claims
	var names strings.Builder
	if _, err := io.Copy(&names, io.NewSectionReader(strs, 0, int64(strs.Size))); err != nil &&
		!errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	size, decode := entries(f)
	first := true // the null symbol
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

// entries returns the size of a symbol in a file, and a function that decodes one.
func entries(f *elf.File) (size int, decode func(order binary.ByteOrder, b []byte) elf.Symbol) {
	if f.Class == elf.ELFCLASS32 {
		return elf.Sym32Size, decode32
	}
	return symbolSize, decode64
}

func decode64(order binary.ByteOrder, b []byte) elf.Symbol {
	return elf.Symbol{
		Info: b[4], Other: b[5], Section: elf.SectionIndex(order.Uint16(b[6:])),
		Value: order.Uint64(b[8:]), Size: order.Uint64(b[16:]),
	}
}

func decode32(order binary.ByteOrder, b []byte) elf.Symbol {
	return elf.Symbol{
		Info: b[12], Other: b[13], Section: elf.SectionIndex(order.Uint16(b[14:])),
		Value: uint64(order.Uint32(b[4:])), Size: uint64(order.Uint32(b[8:])),
	}
}

// blocks calls visit for each block of the contents of r, until visit returns false. Each block
// begins with the last overlap bytes of the previous one.
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

// maxOccurrences is the maximum number of names that end in the wanted name.
const maxOccurrences = 1 << 10

// occurrences returns the offsets at which name occurs at the end of a name, because a table can
// store a name as the end of another name.
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

// defined returns the value of a symbol whose name is at one of the offsets, and a second value if
// there are more.
func defined(f *elf.File, r io.Reader, names map[uint32]bool) (values []uint64) {
	size, decode := entries(f)
	_ = blocks(r, 0, func(_ int, b []byte) bool {
		for ; len(b) >= size && len(values) < 2; b = b[size:] {
			if !names[f.ByteOrder.Uint32(b)] {
				continue
			}
			s := decode(f.ByteOrder, b)
			kind := elf.ST_TYPE(s.Info)
			if s.Section != elf.SHN_UNDEF && kind != elf.STT_TLS && kind != elf.STT_FILE &&
				!slices.Contains(values, s.Value) {
				values = append(values, s.Value)
			}
		}
		return len(values) < 2
	})
	return values
}
