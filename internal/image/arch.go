package image

import (
	"fmt"
	"math/bits"
	"runtime"
)

//go:generate go run ./gen ../../cstapsdt/arch.def arch_table.go

// SlotSize is the distance between two sites, in bytes.
const SlotSize = 16

// MaxArgs is the number of arguments that a note can describe: SystemTap's own
// limit.
const MaxArgs = 12

// Arch is an architecture that images can be made for: a row of
// cstapsdt/arch.def, where its members are explained.
type Arch struct {
	Name       string
	Machine    uint16
	Flags      uint32
	Class      byte
	Data       byte
	Hash       uint64
	Page       uint64
	Ret        string
	Fill       byte
	Sites      []Site
	Registers  []string
	Stack      string
	StackFirst int
}

// Site is a kind of site: a nop, whose address is the trace point. The return
// that follows it is the architecture's.
type Site struct {
	Name string
	Nop  string
}

// ArchByName returns the architecture that GOARCH calls name, or nil.
func ArchByName(name string) *Arch {
	for i := range arches {
		if arches[i].Name == name {
			return &arches[i]
		}
	}
	return nil
}

// Arches returns every architecture, for tests.
func Arches() []Arch { return arches[:] }

// Host returns the architecture that this program runs on, or nil where the
// table has no row for it.
func Host() *Arch { return ArchByName(runtime.GOARCH) }

// SiteByName returns the architecture's kind of site of that name, or nil.
func (a *Arch) SiteByName(name string) *Site {
	for i := range a.Sites {
		if a.Sites[i].Name == name {
			return &a.Sites[i]
		}
	}
	return nil
}

// bigEndian reports whether the architecture has a number's first byte first.
func (a *Arch) bigEndian() bool { return a.Data == 2 }

// operand returns where argument i (from 0) of a size, in bytes, is found at a
// trace point, in the notation of the notes.
func (a *Arch) operand(i, size int) string {
	if i < len(a.Registers) {
		return a.Registers[i]
	}
	offset := a.StackFirst + 8*(i-len(a.Registers))
	if a.bigEndian() {
		offset += 8 - size
	}
	return fmt.Sprintf(a.Stack, offset)
}

// operands is the notation of MaxArgs arguments of 1, 2, 4 and 8 bytes; or of any
// size, where that makes no difference.
type operands [][MaxArgs]string

func (a *Arch) operands() operands {
	sizes := 1
	if a.bigEndian() {
		sizes = 4
	}
	ops := make(operands, sizes)
	for s := range ops {
		for i := range ops[s] {
			ops[s][i] = a.operand(i, 1<<s)
		}
	}
	return ops
}

// of returns the notation of argument i, of a type as notes spell it.
func (ops operands) of(i int, t int8) string {
	size := bits.TrailingZeros8(uint8(max(t, -t)))
	return ops[min(size, len(ops)-1)][i]
}

// Slot returns the bytes of one site: nop, return, filling.
func (a *Arch) Slot(s *Site) [SlotSize]byte {
	var slot [SlotSize]byte
	n := copy(slot[:], s.Nop)
	n += copy(slot[n:], a.Ret)
	for ; n < SlotSize; n++ {
		slot[n] = a.Fill
	}
	return slot
}
