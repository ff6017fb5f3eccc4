package stapsdt

import (
	"cmp"

	"github.com/go-stapsdt/stapsdt/internal/image"
)

// spec returns the contents of the provider's image. The lock is held.
func (p *Provider) spec() image.Spec {
	probes := make([]image.Probe, len(p.probes))
	for i, probe := range p.probes {
		probes[i] = image.Probe{Name: probe.name, Args: probe.notes(), Params: probe.first.params()}
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
