//go:build linux

package tracetest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// noteBytes is one note as a writer would lay it out, without the padding after it.
func noteBytes(order binary.AppendByteOrder, kind uint32, owner string, pad int, desc []byte) []byte {
	b := order.AppendUint32(nil, uint32(len(owner)))
	b = order.AppendUint32(b, uint32(len(desc)))
	b = order.AppendUint32(b, kind)
	b = padTo(append(b, owner...), pad)
	return append(b, desc...)
}

func padTo(b []byte, pad int) []byte {
	for len(b)%pad != 0 {
		b = append(b, 0)
	}
	return b
}

func descBytes(order binary.AppendByteOrder, class elf.Class, words [3]uint64, text string) []byte {
	var b []byte
	for _, w := range words {
		if class == elf.ELFCLASS32 {
			b = order.AppendUint32(b, uint32(w))
		} else {
			b = order.AppendUint64(b, w)
		}
	}
	return append(b, text...)
}

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// eachFormat runs a test for both classes and both byte orders.
func eachFormat(t *testing.T, test func(t *testing.T, order byteOrder, class elf.Class)) {
	for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
		for _, order := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
			t.Run(class.String()+order.String(), func(t *testing.T) { test(t, order, class) })
		}
	}
}

// elfBytes is an ELF file of one executable segment, 0x1000 at offset 0x200, of a .stapsdt.base, and of notes.
func elfBytes(order byteOrder, class elf.Class, base, align uint64, notes []byte) []byte {
	const noteAt, segmentAt, segmentSize, namesAt, headersAt = 0x400, 0x200, 0x100, 0x100, 0x180
	names := "\x00.note.stapsdt\x00.stapsdt.base\x00.shstrtab\x00"
	index := func(s string) uint32 { return uint32(strings.Index(names, s)) }
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	if order.String() == binary.BigEndian.String() {
		ident[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	}
	sections := []elf.Section64{
		{},
		{Name: index(".note.stapsdt"), Type: uint32(elf.SHT_NOTE), Off: noteAt, Size: uint64(len(notes)), Addralign: align},
		{Name: index(".stapsdt.base"), Type: uint32(elf.SHT_PROGBITS), Addr: base, Off: segmentAt, Size: 1, Addralign: 1},
		{Name: index(".shstrtab"), Type: uint32(elf.SHT_STRTAB), Off: namesAt, Size: uint64(len(names)), Addralign: 1},
	}
	sectionsAt := uint64(noteAt+len(notes)+15) &^ 15

	var file bytes.Buffer
	write := func(at uint64, v any) {
		file.Write(make([]byte, max(0, int(at)-file.Len())))
		if err := binary.Write(&file, order, v); err != nil {
			panic(err)
		}
	}
	if class == elf.ELFCLASS64 {
		write(0, elf.Header64{Ident: ident, Type: uint16(elf.ET_DYN), Version: 1, Phoff: 0x40, Shoff: sectionsAt, Ehsize: 64,
			Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 3})
		write(0x40, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: segmentAt, Vaddr: 0x1000,
			Filesz: segmentSize, Memsz: segmentSize})
	} else {
		write(0, elf.Header32{Ident: ident, Type: uint16(elf.ET_DYN), Version: 1, Phoff: 0x40, Shoff: uint32(sectionsAt), Ehsize: 52,
			Phentsize: 32, Phnum: 1, Shentsize: 40, Shnum: uint16(len(sections)), Shstrndx: 3})
		write(0x40, elf.Prog32{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: segmentAt, Vaddr: 0x1000,
			Filesz: segmentSize, Memsz: segmentSize})
	}
	write(namesAt, []byte(names))
	write(noteAt, notes)
	for i, s := range sections {
		if class == elf.ELFCLASS64 {
			write(sectionsAt+uint64(i)*64, s)
			continue
		}
		write(sectionsAt+uint64(i)*40, elf.Section32{Name: s.Name, Type: s.Type, Addr: uint32(s.Addr), Off: uint32(s.Off),
			Size: uint32(s.Size), Addralign: uint32(s.Addralign)})
	}
	return file.Bytes()
}

func TestReadNotes(t *testing.T) {
	eachFormat(t, func(t *testing.T, order byteOrder, class elf.Class) {
		desc := descBytes(order, class, [3]uint64{0x1010, 0x1080, 0x2000}, "app\x00first\x00-4@%eax 8@[sp, 8]\x00")
		notes := padTo(noteBytes(order, 3, "stapsdt\x00", 4, desc), 4)
		notes = append(notes, noteBytes(order, 3, "stapsdt\x00", 4, descBytes(order, class, [3]uint64{0x1020, 0, 0}, "app\x00second\x00\x00"))...)
		got, err := ReadNotes(bytes.NewReader(elfBytes(order, class, 0x1080, 4, notes)))
		require.NoError(t, err)
		require.Equal(t, []Note{
			{Provider: "app", Name: "first", Location: 0x1010, Base: 0x1080, Semaphore: 0x2000, Offset: 0x210,
				Args: []Arg{{-4, "%eax"}, {8, "[sp, 8]"}}},
			{Provider: "app", Name: "second", Location: 0x1020, Offset: 0x220},
		}, got)

		// The file was prelinked 0x40 higher than when the note was written.
		got, err = ReadNotes(bytes.NewReader(elfBytes(order, class, 0x10c0, 4, notes)))
		require.NoError(t, err)
		require.EqualValues(t, 0x1010, got[0].Location)
		require.EqualValues(t, 0x250, got[0].Offset)

		// And beyond its segment.
		_, err = ReadNotes(bytes.NewReader(elfBytes(order, class, 0x1180, 4, notes)))
		require.ErrorContains(t, err, "no executable segment")
	})
}

func TestReadNotesOfNothing(t *testing.T) {
	_, err := Notes("/proc/self/exe")
	require.ErrorIs(t, err, ErrNoNotes)
	_, err = Notes("/proc/self/maps")
	require.Error(t, err)
	_, err = Notes("/no/such/file")
	require.Error(t, err)
}

func TestWalkNotesPadding(t *testing.T) {
	eachFormat(t, func(t *testing.T, order byteOrder, class elf.Class) {
		for align, pad := range map[uint64]int{0: 4, 1: 4, 2: 4, 4: 4, 8: 8} {
			var data []byte
			// Texts of every length modulo eight, and notes of other owners and types between them.
			for n := range 9 {
				desc := descBytes(order, class, [3]uint64{uint64(n), 0, 0}, "p\x00n"+strings.Repeat("x", n)+"\x00\x00")
				data = padTo(append(data, noteBytes(order, 3, "stapsdt\x00", pad, desc)...), pad)
				data = padTo(append(data, noteBytes(order, 3, "GNU\x00", pad, []byte("other"))...), pad)
				data = padTo(append(data, noteBytes(order, 4, "stapsdt\x00", pad, []byte("other"))...), pad)
				data = padTo(append(data, noteBytes(order, 1, "", pad, nil)...), pad)
			}
			notes, err := walkNotes(data, order, class, align)
			require.NoError(t, err)
			require.Len(t, notes, 9)
			for n, note := range notes {
				require.EqualValues(t, n, note.Location)
				require.Equal(t, "n"+strings.Repeat("x", n), note.Name)
			}
		}
		_, err := walkNotes(nil, order, class, 16)
		require.Error(t, err)
	})
}

func TestWalkNotesHostile(t *testing.T) {
	eachFormat(t, func(t *testing.T, order byteOrder, class elf.Class) {
		words := [3]uint64{1, 2, 3}
		note := func(text string) []byte {
			return noteBytes(order, 3, "stapsdt\x00", 4, descBytes(order, class, words, text))
		}
		sizes := func(name, desc uint32) []byte {
			b := order.AppendUint32(nil, name)
			b = order.AppendUint32(b, desc)
			return append(order.AppendUint32(b, 3), "stapsdt\x00"...)
		}
		good := note("p\x00n\x00\x00")
		_, err := walkNotes(good, order, class, 4)
		require.NoError(t, err)
		for cut := 1; cut < len(good); cut++ {
			_, err := walkNotes(good[:cut], order, class, 4)
			require.Error(t, err, "cut to %d bytes", cut)
		}
		for name, data := range map[string][]byte{
			"huge name":             sizes(0xffffffff, 0),
			"huge descriptor":       sizes(8, 0xffffffff),
			"both huge":             sizes(0xffffffff, 0xffffffff),
			"name past the end":     sizes(9, 0),
			"no addresses":          noteBytes(order, 3, "stapsdt\x00", 4, nil),
			"no strings":            note(""),
			"one string":            note("p\x00"),
			"two strings":           note("p\x00n\x00"),
			"arguments unfinished":  note("p\x00n\x004@%eax"),
			"bytes after":           note("p\x00n\x00\x00\x00"),
			"empty provider":        note("\x00n\x00\x00"),
			"empty name":            note("p\x00\x00\x00"),
			"bad argument":          note("p\x00n\x004\x00"),
			"garbage after a note":  append(padTo(note("p\x00n\x00\x00"), 4), 1),
			"zeros where a note is": make([]byte, 11),
		} {
			_, err := walkNotes(data, order, class, 4)
			require.Error(t, err, name)
		}
	})
}

func FuzzNotes(f *testing.F) {
	for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
		for _, order := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
			desc := descBytes(order, class, [3]uint64{0x1010, 0x1080, 0}, "app\x00probe\x00-4@%eax 8@[sp, 8]\x00")
			for _, align := range []uint64{1, 4, 8} {
				notes := noteBytes(order, 3, "stapsdt\x00", max(4, int(align)), desc)
				f.Add(elfBytes(order, class, 0x1080, align, notes), notes)
			}
		}
	}
	f.Fuzz(func(t *testing.T, file, section []byte) {
		if notes, err := ReadNotes(bytes.NewReader(file)); err == nil {
			for _, n := range notes {
				require.NotEmpty(t, n.Provider)
				require.NotEmpty(t, n.Name)
			}
		}
		for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
			for _, align := range []uint64{1, 4, 8} {
				_, _ = walkNotes(section, binary.LittleEndian, class, align)
				_, _ = walkNotes(section, binary.BigEndian, class, align)
			}
		}
	})
}
