package stapsdt

import (
	"cmp"
	"reflect"

	"github.com/go-stapsdt/stapsdt/internal/image"
)

// spec returns the contents of the provider's image. The lock is held.
func (p *Provider) spec() image.Spec {
	probes := make([]image.Probe, len(p.probes))
	for i, probe := range p.probes {
		probes[i] = image.Probe{Name: probe.name, Args: probe.notes(), Params: p.byName[probe.name].params()}
	}
	return image.Spec{Provider: p.name, Probes: probes}
}

// notes returns the types of the arguments in the notation of the image's notes.
func (p *Probe) notes() []int8 {
	list := make([]int8, len(p.args))
	for i, t := range p.args {
		list[i] = t.note()
	}
	return list
}

// params returns the arguments as debuggers see them.
func (p *Probe) params() []image.Param {
	list := make([]image.Param, len(p.args))
	for i, a := range p.Args() {
		list[i] = image.Param{Name: cmp.Or(a.Name, defaultNames[i]), Type: goType(a.Type)}
		if p.types != nil {
			list[i].Type = p.types[i]
		}
	}
	return list
}

// defaultNames are the names that tracers give to arguments without names.
var defaultNames = [MaxArgs]string{
	"arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9", "arg10", "arg11",
}

// goTypes has, at index 8+t, a value of the Go type that has the name of the ArgType t.
var goTypes = [...]any{
	8 + Uint8: uint8(0), 8 + Uint16: uint16(0), 8 + Uint32: uint32(0), 8 + Uint64: uint64(0),
	8 + Int8: int8(0), 8 + Int16: int16(0), 8 + Int32: int32(0), 8 + Int64: int64(0),
	8 + Float32: float32(0), 8 + Float64: float64(0), 8 + String: "",
}

// goType returns the Go type that has the name of a valid ArgType.
func goType(t ArgType) reflect.Type { return reflect.TypeOf(goTypes[8+t]) }
