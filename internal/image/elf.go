package image

// The parts of the ELF format that an image needs, with the names of the System V ABI. They
// are not taken from debug/elf, because it would add its size to every program.
const (
	phdrCount = 5
	dynCount  = 6

	etDyn = 3

	ptLoad     = 1
	ptDynamic  = 2
	ptNote     = 4
	ptGNUStack = 0x6474e551

	pfX, pfW, pfR = 1, 2, 4

	shtProgbits = 1
	shtStrtab   = 3
	shtHash     = 5
	shtDynamic  = 6
	shtNote     = 7
	shtDynsym   = 11

	shfWrite, shfAlloc, shfExec, shfMerge, shfStrings = 1, 2, 4, 0x10, 0x20

	stbGlobal, sttFunc = 1, 2

	dtNull, dtHash, dtStrtab, dtSymtab, dtStrsz, dtSyment = 0, 4, 5, 6, 10, 11
)

// class holds the sizes of the format's structures, which depend on whether a word has 4 or
// 8 bytes.
type class struct {
	word, ehdr, phdr, shdr, sym, dyn uint64
}

// classes holds the two classes, indexed by their number in EI_CLASS.
var classes = [...]class{
	1: {word: 4, ehdr: 52, phdr: 32, shdr: 40, sym: 16, dyn: 8},
	2: {word: 8, ehdr: 64, phdr: 56, shdr: 64, sym: 24, dyn: 16},
}

// idOffset returns the offset of the build ID, which follows the ELF header, the program
// headers and the header of its note.
func (c *class) idOffset() uint64 { return c.ehdr + phdrCount*c.phdr + noteHead + 4 }

// noteHead is the size of a note's header: name size, description size, type.
const noteHead = 12

// The indexes of the sections.
const (
	secNull = iota
	secBuildID
	secHash
	secDynsym
	secDynstr
	secText
	secBase
	secDynamic
	secNotes
	secDebug       // the first of DebugSections, which an image without a description lacks
	secDebugString = secDebug + 2
	secSectionName = secDebug + DebugSections
	secCount       = secSectionName + 1
)

// sectionNames is the string table of the section headers, with the names of the debug
// sections between its parts if there are any.
const (
	sectionNames = "\x00.note.gnu.build-id\x00.hash\x00.dynsym\x00.dynstr\x00.text\x00" +
		".stapsdt.base\x00.dynamic\x00.note.stapsdt\x00"
	debugNames = ".debug_info\x00.debug_abbrev\x00.debug_str\x00.debug_aranges\x00.debug_line\x00"
	lastName   = ".shstrtab\x00"
)

// textAlign is larger than a slot, so that the sites of the images of a growing provider start
// at few different offsets in a page. An image can be loaded over the addresses of another
// only if its sites start at the same offset.
const textAlign = 256

// sectionTypes holds the content of each section's header, except where the section is. An
// align of 0 stands for the size of a word.
var sectionTypes = [secCount]struct {
	name       uint32 // offset in sectionNames
	kind       uint32
	flags      uint64
	align      uint64
	link, info uint32
}{
	secBuildID:     {name: 1, kind: shtNote, flags: shfAlloc, align: 4},
	secHash:        {name: 20, kind: shtHash, flags: shfAlloc, link: secDynsym},
	secDynsym:      {name: 26, kind: shtDynsym, flags: shfAlloc, link: secDynstr, info: 1},
	secDynstr:      {name: 34, kind: shtStrtab, flags: shfAlloc, align: 1},
	secText:        {name: 42, kind: shtProgbits, flags: shfAlloc | shfExec, align: textAlign},
	secBase:        {name: 48, kind: shtProgbits, flags: shfAlloc, align: 1},
	secDynamic:     {name: 62, kind: shtDynamic, flags: shfAlloc | shfWrite, link: secDynstr},
	secNotes:       {name: 71, kind: shtNote, align: 4},
	secDebug:       {name: 85, kind: shtProgbits, align: 1},
	secDebug + 1:   {name: 97, kind: shtProgbits, align: 1},
	secDebugString: {name: 111, kind: shtProgbits, flags: shfMerge | shfStrings, align: 1},
	secDebug + 3:   {name: 122, kind: shtProgbits, align: 1},
	secDebug + 4:   {name: 137, kind: shtProgbits, align: 1},
	secSectionName: {kind: shtStrtab, align: 1}, // the last name
}

// absent reports whether the image does not have section i.
func (w *writer) absent(i int) bool {
	return w.describe == nil && i >= secDebug && i < secSectionName
}

// sections returns the number of the image's sections.
func (w *writer) sectionCount() int {
	if w.describe == nil {
		return secCount - DebugSections
	}
	return secCount
}

// names returns the string table of the section headers, and the offset of its last name.
func (w *writer) names() (table string, last uint32) {
	table = sectionNames
	if w.describe != nil {
		table += debugNames
	}
	return table + lastName, uint32(len(table))
}

// sectionAlign returns the alignment of section i.
func (w *writer) sectionAlign(i int) uint64 {
	if sectionTypes[i].align == 0 {
		return w.word
	}
	return sectionTypes[i].align
}

// entrySize returns the size of an entry of section i, or 0 if it is not a table.
func (w *writer) entrySize(i int) uint64 {
	switch i {
	case secHash:
		return w.arch.Hash
	case secDynsym:
		return w.sym
	case secDynamic:
		return w.dyn
	case secDebugString: // the size of a string's character
		return 1
	}
	return 0
}

// headers appends the ELF header, the program headers and the build ID, which is zero until
// the image is hashed.
func (w *writer) headers() {
	w.bytes("\x7fELF")
	w.out = append(w.out, w.arch.Class, w.arch.Data, 1)
	w.pad(16)
	w.u16(etDyn)
	w.u16(w.arch.Machine)
	w.u32(1)
	w.addr(0) // entry
	w.addr(w.ehdr)
	w.addr(w.headersAt)
	w.u32(w.arch.Flags)
	w.u16(uint16(w.ehdr))
	w.u16(uint16(w.phdr))
	w.u16(phdrCount)
	w.u16(uint16(w.shdr))
	w.u16(uint16(w.sectionCount()))
	w.u16(uint16(w.sectionCount() - 1)) // the index of the section with the names

	base, dynamic, id := w.sections[secBase], w.sections[secDynamic], w.sections[secBuildID]
	w.programHeader(ptLoad, pfR|pfX, section{size: base.offset + base.size}, w.arch.Page)
	w.programHeader(ptLoad, pfR|pfW, dynamic, w.arch.Page)
	w.programHeader(ptDynamic, pfR|pfW, dynamic, w.word)
	w.programHeader(ptNote, pfR, id, 4)
	w.programHeader(ptGNUStack, pfR|pfW, section{}, 16)

	w.u32(4)
	w.u32(buildIDSize)
	w.u32(3) // NT_GNU_BUILD_ID
	w.cstring("GNU")
	w.pad(w.idOffset() + buildIDSize)
}

func (w *writer) programHeader(kind, flags uint32, s section, align uint64) {
	w.u32(kind)
	if w.word == 8 {
		w.u32(flags)
	}
	w.addr(s.offset)
	w.addr(s.addr)
	w.addr(s.addr)
	w.addr(s.size)
	w.addr(s.size)
	if w.word == 4 {
		w.u32(flags)
	}
	w.addr(align)
}

// sectionHeaders appends the section header table, which ends the file.
func (w *writer) sectionHeaders() {
	w.pad(w.headersAt + w.shdr) // the header of the null section is all zeros
	_, last := w.names()
	for i := secBuildID; i < secCount; i++ {
		if w.absent(i) {
			continue
		}
		t, s := sectionTypes[i], &w.sections[i]
		if i == secSectionName {
			t.name = last
		}
		w.u32(t.name)
		w.u32(t.kind)
		w.addr(t.flags)
		w.addr(s.addr)
		w.addr(s.offset)
		w.addr(s.size)
		w.u32(t.link)
		w.u32(t.info)
		w.addr(w.sectionAlign(i))
		w.addr(w.entrySize(i))
	}
}
