// Package image builds the shared object that shows probes to tracers: an ELF file with a
// site for each probe and a SystemTap SDT note that describes it.
//
// An image is a deterministic function of the architecture, the nop, the provider's name, the
// probes in order, and their description in DWARF if they have one. cstapsdt/image.c writes
// the same bytes with libelf.
package image

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"reflect"
	"strconv"
)

// Spec is the content of an image: a provider's name, and its probes in the order of their sites.
type Spec struct {
	Provider string
	Probes   []Probe
}

// Probe describes a probe in an image: its name, the type of each argument in the notation of
// the note (the size in bytes, negative for a signed type), and the arguments as debuggers
// see them. Params is nil if no debug section describes the probe's
// arguments.
type Probe struct {
	Name   string
	Args   []int8
	Params []Param
}

// Param is an argument as debuggers see it: its name, and its type in the program.
type Param struct {
	Name string
	Type reflect.Type
}

// DebugSections is the number of sections that describe the probes to debuggers:
// .debug_info, .debug_abbrev, .debug_str, .debug_aranges and .debug_line.
const DebugSections = 5

// Debug holds the contents of the debug sections. They are part of the file, but not loaded.
type Debug = [DebugSections][]byte

// Describe returns the debug sections of an image whose first site is at the address text,
// relative to the image's base.
type Describe func(text uint64) Debug

// Image is a shared object and the location of its sites.
type Image struct {
	// Bytes is the content of the file.
	Bytes []byte
	// Text is the offset of the first site in the file, in bytes. Site i is at
	// Text + i*SlotSize.
	Text uint64
	// Sites is the number of sites, and Nop the instruction that each begins with.
	Sites int
	Nop   *Nop
	// Provider is the name of the provider, and Builder the name of the image's builder.
	// Both appear in messages.
	Provider, Builder string
}

// TextSize returns the size of all sites, in bytes.
func (im *Image) TextSize() uint64 { return uint64(im.Sites) * SlotSize }

const buildIDSize = 16

// BuildID returns the image's build ID, which is a hash of its bytes.
func (im *Image) BuildID() [buildIDSize]byte {
	const eiClass = 4
	return [buildIDSize]byte(im.Bytes[classes[im.Bytes[eiClass]].idOffset():])
}

// errTooLarge is returned if a 32-bit offset cannot reach all of a string table.
var errTooLarge = errors.New("the image is too large")

// Build builds the image that the spec describes. It has no debug sections if describe is
// nil. Debug sections do not move the other sections. Package dwarf describes
// a Spec.
func Build(a *Arch, nop *Nop, spec Spec, describe Describe) (*Image, error) {
	w := newWriter(a, nop, spec)
	w.describe = describe
	if err := w.layout(); err != nil {
		return nil, err
	}
	w.out = make([]byte, 0, w.end)
	w.headers()
	w.symbols()
	w.text()
	w.dynamic()
	w.notes()
	for _, content := range w.debug {
		w.out = append(w.out, content...)
	}
	table, _ := w.names()
	w.bytes(table)
	w.sectionHeaders()
	id := hash(w.out)
	copy(w.out[w.idOffset():], id[:])
	return &Image{
		Bytes: w.out, Text: w.sections[secText].offset, Sites: len(spec.Probes), Nop: nop,
		Provider: spec.Provider, Builder: "Go",
	}, nil
}

// hash returns the 128-bit FNV-1a hash of an image. Package hash/fnv keeps the hash in memory
// between two bytes, and takes three times as long, a third of a load of many probes.
func hash(image []byte) (id [buildIDSize]byte) {
	const multiplier, shift = 0x13b, 24 // the prime is 1<<(64+shift) + multiplier
	high, low := uint64(0x6c62272e07bb0142), uint64(0x62b821756295c58d)
	for _, b := range image {
		low ^= uint64(b)
		carry, product := bits.Mul64(low, multiplier)
		high = high*multiplier + carry + low<<shift
		low = product
	}
	binary.BigEndian.PutUint64(id[:], high)
	binary.BigEndian.PutUint64(id[8:], low)
	return id
}

// Text returns the address of the first site in an image, which is also its offset in the
// file.
func Text(a *Arch, spec Spec) (uint64, error) {
	w := newWriter(a, &a.Nops[0], spec)
	if err := w.layout(); err != nil {
		return 0, err
	}
	return w.siteAddr(0), nil
}

func newWriter(a *Arch, nop *Nop, spec Spec) *writer {
	return &writer{
		class: classes[a.Class], arch: a, bigEndian: a.bigEndian(), nop: nop,
		provider: spec.Provider, probes: spec.Probes, operands: a.operands(),
	}
}

// writer holds the layout of an image and the bytes appended so far.
type writer struct {
	class
	arch      *Arch
	bigEndian bool
	nop       *Nop
	provider  string
	probes    []Probe
	operands  operands
	describe  Describe
	debug     Debug

	sections [secCount]section
	headersAt,
	end uint64

	out []byte
}

// section is the location of a section.
type section struct {
	offset, addr, size uint64
}

// layout computes the location of every section, in the order of the file.
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
		secBuildID: noteHead + 4 + buildIDSize,
		secHash:    w.arch.Hash * (2 + max(1, n) + n + 1),
		secDynsym:  w.sym * (n + 1),
		secDynstr:  strings,
		secText:    SlotSize * n,
		secBase:    1,
		secDynamic: w.dyn * dynCount,
		secNotes:   notes,
	}
	at := w.ehdr + phdrCount*w.phdr
	for i := secBuildID; i < secCount; i++ {
		if w.absent(i) {
			continue
		}
		switch i {
		case secDebug:
			w.debug = w.describe(w.siteAddr(0))
			for j, content := range w.debug {
				sizes[secDebug+j] = uint64(len(content))
			}
		case secSectionName:
			table, _ := w.names()
			sizes[i] = uint64(len(table))
		}
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
	w.end = w.headersAt + uint64(w.sectionCount())*w.shdr
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

// The functions that append numbers are not inlined, which would add 10 KB to every program with
// probes.

//go:noinline
func (w *writer) u16(v uint16) {
	if w.bigEndian {
		v = bits.ReverseBytes16(v)
	}
	w.out = binary.LittleEndian.AppendUint16(w.out, v)
}

//go:noinline
func (w *writer) u32(v uint32) {
	if w.bigEndian {
		v = bits.ReverseBytes32(v)
	}
	w.out = binary.LittleEndian.AppendUint32(w.out, v)
}

// addr appends an address, or another number of a word's size.
func (w *writer) addr(v uint64) { w.number(w.word, v) }

// number appends a number of 4 or 8 bytes.
//
//go:noinline
func (w *writer) number(size, v uint64) {
	if size == 4 {
		w.u32(uint32(v))
		return
	}
	if w.bigEndian {
		v = bits.ReverseBytes64(v)
	}
	w.out = binary.LittleEndian.AppendUint64(w.out, v)
}

// pad appends zeros up to an offset in the file.
func (w *writer) pad(to uint64) {
	for uint64(len(w.out)) < to {
		w.out = append(w.out, 0)
	}
}

// symbols appends .hash, .dynsym and .dynstr, with a function symbol for each site, which
// gives the site its name in stack traces.
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
	size := uint64(len(w.nop.Code) + len(w.arch.Ret))
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

// text appends the sites, and the byte that the notes refer to as their base.
func (w *writer) text() {
	w.pad(w.sections[secText].offset)
	slot := w.arch.Slot(w.nop)
	for range w.probes {
		w.out = append(w.out, slot[:]...)
	}
	w.out = append(w.out, 0)
}

// dynamic appends the dynamic section, which the dynamic loader needs to map the image for
// the C library.
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
	noteHeader = noteHead + 8 // with "stapsdt\0"
	noteWords  = 3            // location, base, semaphore
	noteType   = 3
)

// descSize returns the size of a note's description without padding.
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

// notes appends .note.stapsdt, which tracers read.
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
		w.addr(0) // no semaphore: a probe is enabled when its site is patched
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
