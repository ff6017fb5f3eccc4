package stapsdt

import (
	"reflect"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/dwarf"
	"github.com/go-stapsdt/stapsdt/internal/image"
)

// description returns what describes the sites of the provider's image: it tells tracers the
// names and types of the arguments. It is nil if no probe has arguments, or if the images of
// the architecture have no debug sections.
func (p *Provider) description(arch *image.Arch, nop *image.Nop) image.Describe {
	described := arch.DWARF != nil && slices.ContainsFunc(p.probes, func(probe *Probe) bool { return len(probe.args) > 0 })
	if !described {
		return nil
	}
	return func(text uint64) image.Debug {
		u := dwarf.Unit{
			Arch: arch, Name: p.name,
			Low: text, High: text + uint64(len(p.probes))*image.SlotSize,
			Sites: make([]dwarf.Site, len(p.probes)),
		}
		size := uint64(len(nop.Code) + len(arch.Ret))
		for i, probe := range p.probes {
			u.Sites[i] = dwarf.Site{
				Name: probe.name, Addr: text + uint64(i)*image.SlotSize, Size: size,
				Params: p.byName[probe.name].params(),
			}
		}
		return dwarf.Encode(&u)
	}
}

// params returns the arguments.
func (p *Probe) params() []dwarf.Param {
	names := p.argNames()
	if names == nil {
		names = defaultNames[:]
	}
	list := make([]dwarf.Param, len(p.args))
	for i, t := range p.args {
		list[i] = dwarf.Param{Name: names[i], Type: goType(t)}
		if p.types != nil {
			list[i].Type = p.types[i]
		}
	}
	return list
}

// defaultNames are those of arguments without names: what tracers call them.
var defaultNames = [MaxArgs]string{
	"arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9", "arg10", "arg11",
}

// goTypes has a value of the type that has the name of an ArgType, at the ArgType plus 8.
var goTypes = [...]any{
	8 + Uint8: uint8(0), 8 + Uint16: uint16(0), 8 + Uint32: uint32(0), 8 + Uint64: uint64(0),
	8 + Int8: int8(0), 8 + Int16: int16(0), 8 + Int32: int32(0), 8 + Int64: int64(0),
	8 + Float32: float32(0), 8 + Float64: float64(0), 8 + String: "",
}

// goType returns the type that has the name of a valid ArgType.
func goType(t ArgType) reflect.Type { return reflect.TypeOf(goTypes[8+t]) }
