package image

import (
	"fmt"
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

// operand returns where argument i (from 0) is found at a trace point, in the
// notation of the notes.
func (a *Arch) operand(i int) string {
	if i < len(a.Registers) {
		return a.Registers[i]
	}
	return fmt.Sprintf(a.Stack, a.StackFirst+8*(i-len(a.Registers)))
}

// operands returns the notation of the first MaxArgs arguments.
func (a *Arch) operands() [MaxArgs]string {
	var ops [MaxArgs]string
	for i := range ops {
		ops[i] = a.operand(i)
	}
	return ops
}

// slot returns the bytes of one site: nop, return, filling.
func (a *Arch) slot(s *Site) [SlotSize]byte {
	var slot [SlotSize]byte
	n := copy(slot[:], s.Nop)
	n += copy(slot[n:], a.Ret)
	for ; n < SlotSize; n++ {
		slot[n] = a.Fill
	}
	return slot
}
