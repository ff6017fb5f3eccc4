//go:build linux

package tracetest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	noteSection = ".note.stapsdt"
	baseSection = ".stapsdt.base"
	noteOwner   = "stapsdt"
	noteType    = 3
)

// ErrNoNotes is what [Notes] wraps when a file is sound ELF and has no .note.stapsdt section.
var ErrNoNotes = errors.New("no " + noteSection + " section")

// Note is one SystemTap SDT note: one trace point of one probe.
type Note struct {
	Provider, Name string
	// Location, Base and Semaphore are the words of the note, as they stand in the file.
	Location, Base, Semaphore uint64
	// Args describes the arguments, in order. An operand that this package cannot decode is still listed: only
	// [Sample.Arg] refuses it.
	Args []Arg
	// Offset is the place of Location in the file, which is what the kernel's uprobes take. It accounts for prelinking
	// as tracers do, by the distance between Base and where .stapsdt.base really is.
	Offset uint64
}

// Notes reads the SDT notes of the ELF file at path, which may be of either byte order and of 32 or 64 bits. It wraps
// [ErrNoNotes] when there are none to read.
func Notes(path string) ([]Note, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	notes, err := ReadNotes(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return notes, nil
}

// ReadNotes is [Notes] for a file image that has no path.
func ReadNotes(r io.ReaderAt) ([]Note, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	var notes []Note
	found := false
	for _, s := range f.Sections {
		if s.Name != noteSection {
			continue
		}
		found = true
		if s.Type != elf.SHT_NOTE {
			return nil, fmt.Errorf("%s is of type %v", s.Name, s.Type)
		}
		data, err := s.Data()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		more, err := walkNotes(data, f.ByteOrder, f.Class, s.Addralign)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		notes = append(notes, more...)
	}
	if !found {
		return nil, ErrNoNotes
	}
	for i := range notes {
		if notes[i].Offset, err = fileOffset(f, &notes[i]); err != nil {
			return nil, fmt.Errorf("%s:%s: %w", notes[i].Provider, notes[i].Name, err)
		}
	}
	return notes, nil
}

// walkNotes splits an SHT_NOTE section. The padding of a note follows the alignment of its section: eight where that
// is eight, else four (gABI says four for 32-bit files, and what says 0, 1 or 2 means four too, as readelf reads it).
func walkNotes(data []byte, order binary.ByteOrder, class elf.Class, align uint64) ([]Note, error) {
	var pad uint64
	switch align {
	case 0, 1, 2, 4:
		pad = 4
	case 8:
		pad = 8
	default:
		return nil, fmt.Errorf("alignment %d is neither 4 nor 8", align)
	}
	const header = 12
	size := uint64(len(data))
	var notes []Note
	for at := uint64(0); at < size; {
		if size-at < header {
			return nil, fmt.Errorf("note at %#x: %d bytes are no header", at, size-at)
		}
		// The sizes are 32 bits each and the sums 64, so nothing here can wrap.
		nameSize := uint64(order.Uint32(data[at:]))
		descSize := uint64(order.Uint32(data[at+4:]))
		kind := order.Uint32(data[at+8:])
		name := at + header
		desc := alignUp(name+nameSize, pad)
		end := desc + descSize
		if name+nameSize > size || end > size {
			return nil, fmt.Errorf("note at %#x: name of %d and descriptor of %d bytes pass the end at %#x", at, nameSize, descSize, size)
		}
		if kind == noteType && string(data[name:name+nameSize]) == noteOwner+"\x00" {
			n, err := parseNote(data[desc:end], order, class)
			if err != nil {
				return nil, fmt.Errorf("note at %#x: %w", at, err)
			}
			notes = append(notes, n)
		}
		// The last note of a section may lack its padding: at then passes the size, and the walk ends.
		at = alignUp(end, pad)
	}
	return notes, nil
}

func alignUp(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }

// parseNote reads a descriptor: three addresses, then three strings. Bytes after the last NUL are refused, as they
// would be a mistake of the writer that most tracers do not notice.
func parseNote(desc []byte, order binary.ByteOrder, class elf.Class) (Note, error) {
	var n Note
	word := 8
	if class == elf.ELFCLASS32 {
		word = 4
	}
	if len(desc) < 3*word {
		return n, fmt.Errorf("descriptor of %d bytes is too short for three addresses", len(desc))
	}
	for i, to := range []*uint64{&n.Location, &n.Base, &n.Semaphore} {
		if word == 4 {
			*to = uint64(order.Uint32(desc[i*word:]))
		} else {
			*to = order.Uint64(desc[i*word:])
		}
	}
	var text [3]string
	rest := desc[3*word:]
	for i, what := range []string{"provider", "name", "arguments"} {
		s, after, ok := bytes.Cut(rest, []byte{0})
		if !ok {
			return n, fmt.Errorf("%s is not terminated", what)
		}
		text[i], rest = string(s), after
	}
	if len(rest) != 0 {
		return n, fmt.Errorf("%d bytes follow the arguments", len(rest))
	}
	if text[0] == "" || text[1] == "" {
		return n, fmt.Errorf("empty name in %q:%q", text[0], text[1])
	}
	n.Provider, n.Name = text[0], text[1]
	var err error
	n.Args, err = ParseArgs(text[2])
	return n, err
}

// fileOffset finds a note's location through the program headers, which is where the kernel maps it from: section
// headers may say otherwise, and are not there in every file that runs.
func fileOffset(f *elf.File, n *Note) (uint64, error) {
	location := n.Location
	if s := f.Section(baseSection); s != nil && n.Base != 0 {
		location += s.Addr - n.Base
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && location >= p.Vaddr && location-p.Vaddr < p.Filesz {
			return p.Off + (location - p.Vaddr), nil
		}
	}
	return 0, fmt.Errorf("location %#x is in no executable segment", location)
}
