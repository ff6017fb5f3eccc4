package image

import (
	"fmt"
	"math/bits"
	"runtime"
)

//go:generate go run ./gen ../../cstapsdt/arch.def arch_table.go

// SlotSize is the distance between two sites, in bytes.
const SlotSize = 16

// MaxArgs is the largest number of arguments that a note can describe. It is SystemTap's
// limit.
const MaxArgs = 12

// Arch is an architecture for which images can be built: a row of cstapsdt/arch.def, which
// explains the fields.
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
	Entry      string
	Nops       []Nop
	Registers  []string
	Stack      string
	StackFirst int
	DWARF      *Registers // nil if images have no debug sections
}

// Registers holds DWARF's numbers of the stack pointer, and of the registers in
// Arch.Registers.
type Registers struct {
	Stack byte
	Args  []byte
}

// Nop is a kind of nop: the instruction that a site begins with, to which tracers attach. The
// architecture's return instruction follows it.
type Nop struct {
	Name string
	Code string
	// Split reports whether the kernel may turn the nop into two instructions, so that
	// a thread can be stopped inside it.
	Split bool
}

// ArchByName returns the architecture whose GOARCH is name, or nil.
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

// Host returns the architecture that this program runs on, or nil if the table has no row
// for it.
func Host() *Arch { return ArchByName(runtime.GOARCH) }

// NopByName returns the architecture's nop of that name, or nil.
func (a *Arch) NopByName(name string) *Nop {
	for i := range a.Nops {
		if a.Nops[i].Name == name {
			return &a.Nops[i]
		}
	}
	return nil
}

// bigEndian reports whether the architecture stores a number's most significant byte first.
func (a *Arch) bigEndian() bool { return a.Data == 2 }

// operand returns the operand of argument i at a site, in the notation of the notes. i
// starts at 0, and size is the argument's size in bytes.
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

// operands holds the notation of MaxArgs arguments: a row for each of the sizes 1, 2, 4 and 8
// bytes, or a single row if the size makes no difference.
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

// of returns the notation of argument i, whose type t is in the notation of the notes.
func (ops operands) of(i int, t int8) string {
	size := bits.TrailingZeros8(uint8(max(t, -t)))
	return ops[min(size, len(ops)-1)][i]
}

// Slot returns the bytes of a site: the nop, the return, fill bytes, and the entry.
func (a *Arch) Slot(nop *Nop) [SlotSize]byte {
	var slot [SlotSize]byte
	n := copy(slot[:], nop.Code)
	n += copy(slot[n:], a.Ret)
	for ; n < SlotSize; n++ {
		slot[n] = a.Fill
	}
	copy(slot[SlotSize-len(a.Entry):], a.Entry)
	return slot
}
