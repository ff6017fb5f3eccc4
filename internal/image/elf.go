package image

// The parts of the ELF format that an image needs, by the names of the System
// V ABI. debug/elf has them too, at the price of its size in every program.
const (
	ehdrSize  = 64
	phdrSize  = 56
	shdrSize  = 64
	symSize   = 24
	dynSize   = 16
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

	shfWrite, shfAlloc, shfExec = 1, 2, 4

	stbGlobal, sttFunc = 1, 2

	dtNull, dtHash, dtStrtab, dtSymtab, dtStrsz, dtSyment = 0, 4, 5, 6, 10, 11
)

// The sections, by their index.
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
	secSectionName
	secCount
)

// sectionNames is the string table of the section headers.
const sectionNames = "\x00.note.gnu.build-id\x00.hash\x00.dynsym\x00.dynstr\x00.text\x00" +
	".stapsdt.base\x00.dynamic\x00.note.stapsdt\x00.shstrtab\x00"

// sectionTypes is what the header of each section says of it, its place left
// out.
var sectionTypes = [secCount]struct {
	name       uint32 // offset in sectionNames
	kind       uint32
	flags      uint64
	align      uint64
	entsize    uint64
	link, info uint32
}{
	secBuildID:     {name: 1, kind: shtNote, flags: shfAlloc, align: 4},
	secHash:        {name: 20, kind: shtHash, flags: shfAlloc, align: 8, entsize: 4, link: secDynsym},
	secDynsym:      {name: 26, kind: shtDynsym, flags: shfAlloc, align: 8, entsize: symSize, link: secDynstr, info: 1},
	secDynstr:      {name: 34, kind: shtStrtab, flags: shfAlloc, align: 1},
	secText:        {name: 42, kind: shtProgbits, flags: shfAlloc | shfExec, align: SlotSize},
	secBase:        {name: 48, kind: shtProgbits, flags: shfAlloc, align: 1},
	secDynamic:     {name: 62, kind: shtDynamic, flags: shfAlloc | shfWrite, align: 8, entsize: dynSize, link: secDynstr},
	secNotes:       {name: 71, kind: shtNote, align: 4},
	secSectionName: {name: 85, kind: shtStrtab, align: 1},
}

// headers appends the ELF header, the program headers and the build id, which
// stays zero until the image is hashed.
func (w *writer) headers() {
	w.bytes("\x7fELF\x02\x01\x01")
	w.pad(16)
	w.u16(etDyn)
	w.u16(w.arch.Machine)
	w.u32(1)
	w.u64(0) // entry
	w.u64(ehdrSize)
	w.u64(w.headersAt)
	w.u32(0) // flags
	w.u16(ehdrSize)
	w.u16(phdrSize)
	w.u16(phdrCount)
	w.u16(shdrSize)
	w.u16(secCount)
	w.u16(secSectionName)

	base, dynamic, id := w.sections[secBase], w.sections[secDynamic], w.sections[secBuildID]
	w.programHeader(ptLoad, pfR|pfX, section{size: base.offset + base.size}, w.arch.Page)
	w.programHeader(ptLoad, pfR|pfW, dynamic, w.arch.Page)
	w.programHeader(ptDynamic, pfR|pfW, dynamic, 8)
	w.programHeader(ptNote, pfR, id, 4)
	w.programHeader(ptGNUStack, pfR|pfW, section{}, 16)

	w.u32(4)
	w.u32(buildIDSize)
	w.u32(3) // NT_GNU_BUILD_ID
	w.cstring("GNU")
	w.pad(buildIDOffset + buildIDSize)
}

func (w *writer) programHeader(kind, flags uint32, s section, align uint64) {
	w.u32(kind)
	w.u32(flags)
	w.u64(s.offset)
	w.u64(s.addr)
	w.u64(s.addr)
	w.u64(s.size)
	w.u64(s.size)
	w.u64(align)
}

// sectionHeaders appends the section header table, which ends the file.
func (w *writer) sectionHeaders() {
	w.pad(w.headersAt)
	for i, s := range w.sections {
		t := &sectionTypes[i]
		w.u32(t.name)
		w.u32(t.kind)
		w.u64(t.flags)
		w.u64(s.addr)
		w.u64(s.offset)
		w.u64(s.size)
		w.u32(t.link)
		w.u32(t.info)
		w.u64(t.align)
		w.u64(t.entsize)
	}
}
