package stapsdt

import "github.com/go-stapsdt/stapsdt/internal/image"

// spec returns the contents of the provider's image. The lock is held.
func (p *Provider) spec() image.Spec {
	count := 0
	for _, probe := range p.probes {
		count += len(probe.args)
	}
	probes := make([]image.Probe, len(p.probes))
	args, params := make([]int8, 0, count), make([]image.Param, 0, count) // of all probes
	for i, probe := range p.probes {
		from := len(args)
		args, params = probe.appendNotes(args), probe.first.appendParams(params)
		probes[i] = image.Probe{Name: probe.name, Args: args[from:], Params: params[from:]}
	}
	return image.Spec{Provider: p.name, Probes: probes}
}

// appendNotes appends the types of the arguments in the notation of the image's notes.
func (p *Probe) appendNotes(list []int8) []int8 {
	for _, t := range p.args {
		list = append(list, t.note())
	}
	return list
}

// appendParams appends the arguments as debuggers see them.
func (p *Probe) appendParams(list []image.Param) []image.Param {
	names := p.argNames()
	if names == nil {
		names = defaultNames[:]
	}
	for i, t := range p.args {
		param := image.Param{Name: names[i]}
		if p.types != nil {
			param.Type = p.types[i]
		} else {
			param.Type = goType(t)
		}
		list = append(list, param)
	}
	return list
}

// defaultNames are the names that tracers give to arguments without names.
var defaultNames = [MaxArgs]string{
	"arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9", "arg10", "arg11",
}
