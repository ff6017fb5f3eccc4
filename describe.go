package stapsdt

import (
	"github.com/go-stapsdt/stapsdt/internal/dwarf"
	"github.com/go-stapsdt/stapsdt/internal/image"
)

// describer has the functions that only programs with names of arguments need.
type describer struct {
	check    func(p *Provider, probe string, args []ArgType, names []string) error
	sections func(p *Provider, arch *image.Arch, nop *image.Nop, text uint64) image.Debug
}

// naming is the only describer. Only code that was given names refers to it, so that the
// linker leaves these functions and package dwarf out of other programs. For this reason
// NewProbe1 to NewProbe6 are inlined: the compiler knows in each caller whether there are names.
var naming = &describer{(*Provider).checkNames, describe}

// describe returns the debug sections of the provider's image, in which the first site is
// at the address text. They tell tracers the names and types of the arguments.
func describe(p *Provider, arch *image.Arch, nop *image.Nop, text uint64) image.Debug {
	u := dwarf.Unit{
		Arch: arch, Name: p.name,
		Low: text, High: text + uint64(len(p.probes))*image.SlotSize,
		Sites: make([]dwarf.Site, len(p.probes)),
	}
	size := uint64(len(nop.Code) + len(arch.Ret))
	for i, probe := range p.probes {
		u.Sites[i] = dwarf.Site{
			Name: probe.name, Addr: text + uint64(i)*image.SlotSize, Size: size,
			Params: probe.params(),
		}
	}
	return dwarf.Encode(&u)
}

// params returns the arguments with their names, or nil if they have none.
func (p *Probe) params() []dwarf.Param {
	names := p.argNames()
	list := make([]dwarf.Param, len(names))
	for i, name := range names {
		list[i] = dwarf.Param{Name: name, Type: p.types[i]}
	}
	return list
}
