// Package dwarf describes the sites of an image as functions, in DWARF 4, so that debuggers
// and tracers know the names and types of a probe's arguments.
//
// The description is a compilation unit in C, because lldb ignores the parameters of a
// unit in Go. Each site is a function with the probe's name. Its first six arguments are
// parameters, and the others are variables: bpftrace rejects a function with more
// parameters than it has registers for. There is no code to step through, but perf reads
// the header of a line table before it accepts a function's name.
//
// cstapsdt/dwarf.c writes the same bytes for the types that C has.
package dwarf

import (
	"encoding/binary"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/image"
)

// Describe returns the description of an image. It is nil if no probe of the image has
// parameters, or if the images of the architecture have no debug sections.
func Describe(arch *image.Arch, nop *image.Nop, spec image.Spec) image.Describe {
	described := arch.DWARF != nil &&
		slices.ContainsFunc(spec.Probes, func(p image.Probe) bool { return len(p.Params) > 0 })
	if !described {
		return nil
	}
	return func(text uint64) image.Debug { return encode(arch, nop, spec, text) }
}

// unit holds the properties of an image as a whole.
type unit struct {
	arch      *image.Arch
	name      string // the provider's name
	low, high uint64 // the addresses of the first site, and after the last
	code      uint64 // the size of a site's code, in bytes
}

// maxParams is the number of arguments that every tracer accepts as parameters.
const maxParams = 6

// encode returns the sections that describe an image whose first site is at the address
// text. It is deterministic.
func encode(arch *image.Arch, nop *image.Nop, spec image.Spec, text uint64) image.Debug {
	n := len(spec.Probes)
	u := &unit{
		arch: arch, name: spec.Provider, low: text, high: text + uint64(n)*image.SlotSize,
		code: uint64(len(nop.Code) + len(arch.Ret)),
	}
	e := encoder{
		unit: u, info: make([]byte, 0, 64*n), str: make([]byte, 0, 32*n), strings: newStrings(n),
	}
	e.header()
	params := 0
	for i := range spec.Probes {
		params += len(spec.Probes[i].Params)
	}
	e.params = make([]int, 0, params)
	for i := range spec.Probes {
		for _, p := range spec.Probes[i].Params {
			e.params = append(e.params, e.param(p.Type))
		}
	}
	e.describeTypes()
	for i := range spec.Probes {
		e.site(i, &spec.Probes[i])
	}
	e.u8(0) // the end of the unit's children
	binary.LittleEndian.PutUint32(e.info, uint32(len(e.info)-4))
	return image.Debug{e.info, []byte(abbrevs), e.str, aranges(u), line(u)}
}

// encoder holds .debug_info and .debug_str, and the offsets in them.
type encoder struct {
	unit      *unit
	info, str []byte
	strings   strings
	params    []int // the types of the arguments of the sites that are still to be described
	types
}

// The functions that append are not inlined: every program with probes links the encoder,
// and inlining would add 20 KB.

//go:noinline
func (e *encoder) u8(v byte) { e.info = append(e.info, v) }

//go:noinline
func (e *encoder) u32(v uint32) { e.info = binary.LittleEndian.AppendUint32(e.info, v) }

func (e *encoder) u64(v uint64) {
	e.u32(uint32(v))
	e.u32(uint32(v >> 32))
}

// uleb appends a number in LEB128.
//
//go:noinline
func (e *encoder) uleb(v uint64) {
	for ; v >= 0x80; v >>= 7 {
		e.u8(byte(v) | 0x80)
	}
	e.u8(byte(v))
}

// string appends a reference to a string in .debug_str, which has each string once.
func (e *encoder) string(s string) {
	place := e.strings.find(e.str, s)
	if *place == 0 {
		*place = uint32(len(e.str)) + 1
		e.str = append(append(e.str, s...), 0)
	}
	e.u32(*place - 1)
}

const (
	version   = 4
	addrSize  = 8
	languageC = 0x0c // DW_LANG_C99

	producer = "stapsdt"
	// directory is the directory of the file that has the provider's name: perf dereferences it.
	directory = "/"
)

// header appends the header of the unit and its first entry.
func (e *encoder) header() {
	e.u32(0) // the length, which is known at the end
	e.info = binary.LittleEndian.AppendUint16(e.info, version)
	e.u32(0) // the offset of the abbreviations
	e.u8(addrSize)
	e.u8(abbrevUnit)
	e.string(producer)
	e.u8(languageC)
	e.string(e.unit.name)
	e.string(directory)
	e.u64(e.unit.low)
	e.u32(uint32(e.unit.high - e.unit.low))
	e.u32(0) // the offset of the line table
}

// site appends the function at site i, which belongs to probe p. Its line is i.
func (e *encoder) site(i int, p *image.Probe) {
	if len(p.Params) > 0 {
		e.u8(abbrevSite)
	} else {
		e.u8(abbrevBareSite)
	}
	e.string(p.Name)
	e.info = binary.LittleEndian.AppendUint64(e.info, e.unit.low+uint64(i)*image.SlotSize)
	e.info = append(e.info, byte(e.unit.code), 1) // the first file
	e.uleb(uint64(i) + 1)
	for j, param := range p.Params {
		if j < maxParams {
			e.u8(abbrevParam)
		} else {
			e.u8(abbrevVariable)
		}
		e.string(param.Name)
		e.u32(e.queue[e.params[j]].at)
		e.location(j)
	}
	e.params = e.params[len(p.Params):]
	if len(p.Params) > 0 {
		e.u8(0) // the end of the parameters
	}
}

const (
	opReg0  = 0x50 // DW_OP_reg0: the value is in the register
	opBreg0 = 0x70 // DW_OP_breg0: the value is at an offset from the register
)

// location appends the place of argument i when the site is entered.
func (e *encoder) location(i int) {
	arch, registers := e.unit.arch, e.unit.arch.DWARF
	if i < len(registers.Args) {
		e.u8(1)
		e.u8(opReg0 + registers.Args[i])
		return
	}
	offset := arch.StackFirst + 8*(i-len(registers.Args)) // below 64, which is one byte of LEB128
	e.u8(2)
	e.u8(opBreg0 + registers.Stack)
	e.u8(byte(offset))
}

// arangesHeader is .debug_aranges up to the addresses: the length, the version, the offset
// of the unit, the size of an address, and padding to twice that size.
const arangesHeader = "\x2c\x00\x00\x00" + "\x02\x00" + "\x00\x00\x00\x00" + "\x08\x00" + "\x00\x00\x00\x00"

// aranges returns .debug_aranges, without which tools search all units for an address.
func aranges(u *unit) []byte {
	b := make([]byte, len(arangesHeader)+4*addrSize) // a range, and zeros at the end
	n := copy(b, arangesHeader)
	binary.LittleEndian.PutUint64(b[n:], u.low)
	binary.LittleEndian.PutUint64(b[n+addrSize:], u.high-u.low)
	return b
}

// lineHeader is the header of a line table from minimum_instruction_length on. The values
// are the usual ones, because nothing uses them.
const lineHeader = "\x01\x01\x01\xfb\x0e\x0d" + "\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01"

// line returns .debug_line: a table with one file and no lines. It begins with its length,
// the version, and the length of the rest of the header.
func line(u *unit) []byte {
	b := append([]byte("\x00\x00\x00\x00"+"\x04\x00"+"\x00\x00\x00\x00"+lineHeader+"\x00"), u.name...)
	b = append(b, "\x00\x00\x00\x00"+"\x00"...)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	binary.LittleEndian.PutUint32(b[6:], uint32(len(b)-10))
	return b
}
