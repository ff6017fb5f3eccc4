// Package image lays out the shared object that shows probes to tracers: an
// ELF file with one site for each trace point and one SystemTap SDT note that
// describes it.
//
// An image is a deterministic function of the architecture, the kind of site,
// the provider's name and the probes in order. cstapsdt/image.c writes the same
// bytes with libelf.
package image

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"strconv"
)

// Probe is one trace point: its name, and the type of each argument as the
// note spells it, which is its size in bytes, negative where it is signed.
type Probe struct {
	Name string
	Args []int8
}

// Image is a shared object, and where its sites are.
type Image struct {
	// Bytes is the file.
	Bytes []byte
	// Text is the offset of the first site in the file, in bytes. Site i is
	// at Text + i*SlotSize.
	Text uint64
	// Sites is the number of sites.
	Sites int
}

const buildIDSize = 16

// BuildID returns the image's build id, which is a hash of its bytes.
func (im *Image) BuildID() [buildIDSize]byte {
	const eiClass = 4
	return [buildIDSize]byte(im.Bytes[classes[im.Bytes[eiClass]].idOffset():])
}

// errTooLarge is returned for what a 32-bit offset into a string table cannot
// reach.
var errTooLarge = errors.New("the image is too large")

// Build lays out the image of a provider's probes.
func Build(a *Arch, s *Site, provider string, probes []Probe) (*Image, error) {
	w := writer{class: classes[a.Class], arch: a, site: s, provider: provider, probes: probes, operands: a.operands()}
	if a.bigEndian() {
		w.order = binary.BigEndian
	} else {
		w.order = binary.LittleEndian
	}
	if err := w.layout(); err != nil {
		return nil, err
	}
	w.out = make([]byte, 0, w.end)
	w.headers()
	w.symbols()
	w.text()
	w.dynamic()
	w.notes()
	w.names()
	w.sectionHeaders()
	id := fnv.New128a()
	id.Write(w.out)
	id.Sum(w.out[w.idOffset():w.idOffset()])
	return &Image{Bytes: w.out, Text: w.sections[secText].offset, Sites: len(probes)}, nil
}

// writer holds the layout, then the bytes appended so far.
type writer struct {
	class
	arch     *Arch
	order    binary.AppendByteOrder
	site     *Site
	provider string
	probes   []Probe
	operands operands

	sections [secCount]section
	headersAt,
	end uint64

	out []byte
}

// section is where a section stands.
type section struct {
	offset, addr, size uint64
}

// layout gives every section its place, in the order of the file.
func (w *writer) layout() error {
	var strings, notes uint64 = 1, 0
	for i := range w.probes {
		strings += uint64(len(w.probes[i].Name)) + 1
		notes += align(noteHeader+w.descSize(&w.probes[i]), 4)
	}
	n := uint64(len(w.probes))
	if strings > math.MaxUint32 || n > math.MaxUint32/64 {
		return errTooLarge
	}
	sizes := [secCount]uint64{
		secBuildID:     noteHead + 4 + buildIDSize,
		secHash:        w.arch.Hash * (2 + max(1, n) + n + 1),
		secDynsym:      w.sym * (n + 1),
		secDynstr:      strings,
		secText:        SlotSize * n,
		secBase:        1,
		secDynamic:     w.dyn * dynCount,
		secNotes:       notes,
		secSectionName: uint64(len(sectionNames)),
	}
	at := w.ehdr + phdrCount*w.phdr
	for i := secBuildID; i < secCount; i++ {
		at = align(at, w.sectionAlign(i))
		s := section{offset: at, size: sizes[i]}
		switch {
		case i == secDynamic:
			s.addr = at + w.arch.Page
		case sectionTypes[i].flags&shfAlloc != 0:
			s.addr = at
		}
		w.sections[i] = s
		at += sizes[i]
	}
	w.headersAt = align(at, w.word)
	w.end = w.headersAt + secCount*w.shdr
	return nil
}

// align rounds n up to a multiple of to, a power of two.
func align(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }

// siteAddr returns the address of site i, relative to the image's base.
func (w *writer) siteAddr(i int) uint64 {
	return w.sections[secText].addr + uint64(i)*SlotSize
}

func (w *writer) bytes(s string) { w.out = append(w.out, s...) }
func (w *writer) cstring(s string) {
	w.out = append(w.out, s...)
	w.out = append(w.out, 0)
}
func (w *writer) u16(v uint16) { w.out = w.order.AppendUint16(w.out, v) }
func (w *writer) u32(v uint32) { w.out = w.order.AppendUint32(w.out, v) }

// addr appends an address, or another number that has a word.
func (w *writer) addr(v uint64) { w.number(w.word, v) }

// number appends a number of 4 or 8 bytes.
func (w *writer) number(size, v uint64) {
	if size == 4 {
		w.out = w.order.AppendUint32(w.out, uint32(v))
	} else {
		w.out = w.order.AppendUint64(w.out, v)
	}
}

// pad appends zeros up to an offset in the file.
func (w *writer) pad(to uint64) {
	for uint64(len(w.out)) < to {
		w.out = append(w.out, 0)
	}
}

// symbols appends .hash, .dynsym and .dynstr: a function symbol a site, by
// which stack traces name it.
func (w *writer) symbols() {
	n := len(w.probes)
	buckets := max(1, n)
	heads, chains := make([]uint32, buckets), make([]uint32, n+1)
	for i := range w.probes {
		b := elfHash(w.probes[i].Name) % uint32(buckets)
		chains[i+1] = heads[b]
		heads[b] = uint32(i + 1)
	}
	w.pad(w.sections[secHash].offset)
	w.number(w.arch.Hash, uint64(buckets))
	w.number(w.arch.Hash, uint64(n+1))
	for _, h := range heads {
		w.number(w.arch.Hash, uint64(h))
	}
	for _, c := range chains {
		w.number(w.arch.Hash, uint64(c))
	}

	w.pad(w.sections[secDynsym].offset)
	w.pad(w.sections[secDynsym].offset + w.sym)
	name := uint32(1)
	for i := range w.probes {
		w.symbol(name, w.siteAddr(i))
		name += uint32(len(w.probes[i].Name)) + 1
	}

	w.out = append(w.out, 0)
	for i := range w.probes {
		w.cstring(w.probes[i].Name)
	}
}

// symbol appends the symbol of one site.
func (w *writer) symbol(name uint32, addr uint64) {
	size := uint64(len(w.site.Nop) + len(w.arch.Ret))
	w.u32(name)
	if w.word == 4 {
		w.addr(addr)
		w.addr(size)
	}
	w.out = append(w.out, stbGlobal<<4|sttFunc, 0)
	w.u16(secText)
	if w.word == 8 {
		w.addr(addr)
		w.addr(size)
	}
}

// elfHash is the System V ABI's hash of a symbol's name.
func elfHash(name string) uint32 {
	var h uint32
	for i := range len(name) {
		h = h<<4 + uint32(name[i])
		g := h & 0xf0000000
		h ^= g >> 24
		h &^= g
	}
	return h
}

// text appends the sites, and the byte that the notes call their base.
func (w *writer) text() {
	w.pad(w.sections[secText].offset)
	slot := w.arch.Slot(w.site)
	for range w.probes {
		w.out = append(w.out, slot[:]...)
	}
	w.out = append(w.out, 0)
}

// dynamic appends the dynamic section, by which the dynamic loader maps the
// image for the C library.
func (w *writer) dynamic() {
	w.pad(w.sections[secDynamic].offset)
	for _, d := range [dynCount][2]uint64{
		{dtHash, w.sections[secHash].addr},
		{dtStrtab, w.sections[secDynstr].addr},
		{dtSymtab, w.sections[secDynsym].addr},
		{dtStrsz, w.sections[secDynstr].size},
		{dtSyment, w.sym},
		{dtNull, 0},
	} {
		w.addr(d[0])
		w.addr(d[1])
	}
}

const (
	noteHeader = noteHead + 8 // and "stapsdt\0"
	noteWords  = 3            // location, base, semaphore
	noteType   = 3
)

// descSize returns the size of a note's description, padding left out.
func (w *writer) descSize(p *Probe) uint64 {
	size := noteWords*int(w.word) + len(w.provider) + 1 + len(p.Name) + 1 + 1
	for i, t := range p.Args {
		if i > 0 {
			size++
		}
		size += 2 + len(w.operands.of(i, t)) // a digit and "@"
		if t < 0 {
			size++
		}
	}
	return uint64(size)
}

// notes appends .note.stapsdt, the part that tracers read.
func (w *writer) notes() {
	w.pad(w.sections[secNotes].offset)
	for i := range w.probes {
		p := &w.probes[i]
		w.u32(8)
		w.u32(uint32(w.descSize(p)))
		w.u32(noteType)
		w.bytes("stapsdt\x00")
		w.addr(w.siteAddr(i))
		w.addr(w.sections[secBase].addr)
		w.addr(0) // no semaphore: a site is enabled when it is patched
		w.cstring(w.provider)
		w.cstring(p.Name)
		for j, t := range p.Args {
			if j > 0 {
				w.bytes(" ")
			}
			w.out = strconv.AppendInt(w.out, int64(t), 10)
			w.bytes("@")
			w.bytes(w.operands.of(j, t))
		}
		w.out = append(w.out, 0)
		w.pad(align(uint64(len(w.out)), 4))
	}
}

// names appends the names of the sections.
func (w *writer) names() {
	w.bytes(sectionNames)
}
