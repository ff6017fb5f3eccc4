package elffile

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
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
