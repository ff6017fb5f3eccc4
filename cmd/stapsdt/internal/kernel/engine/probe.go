//go:build linux

package engine

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/function"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// NewProbe returns the description of a site for a BPF program.
func NewProbe(f *target.File, site sdt.Site) *bpf.Probe {
	p := &bpf.Probe{Provider: site.Provider, Name: site.Name}
	for i, delta := range f.Deltas(&site) {
		p.Args = append(p.Args, bpf.Arg{Arg: site.Args[i], Delta: delta})
	}
	fn := f.Function(&site)
	if fn == nil {
		p.Nop = f.Nop(&site)
		return p
	}
	_, endless := fn.Returns()
	p.Function = &bpf.FunctionSite{
		Return: fn.Return, Push: fn.Place == function.AtPush && !fn.Return, Goid: fn.Goid,
		Endless: endless != nil,
	}
	if s := fn.Statement; s != nil {
		p.Function.Emulated, p.Function.Framed, p.Function.Loop = s.Emulated, s.Framed, s.Loop
		p.Function.Unread, p.Function.Unsure = reasons(s.Variables)
	}
	p.ArgsErr, p.Restarts = fn.ArgsErr, fn.Place == function.AtBranch && !fn.Return
	for i, a := range fn.Args {
		p.Args[i] = functionArg(f, &site, a)
	}
	for _, a := range fn.Fields {
		p.Fields = append(p.Fields, functionArg(f, &site, a))
	}
	return p
}

// reasons returns why variables are not read, and why they may have old values, by their names.
func reasons(all []function.Variable) (unread, unsure map[string]error) {
	unread, unsure = map[string]error{}, map[string]error{}
	for _, v := range all {
		if v.Err != nil {
			unread[v.Name] = v.Err
		}
		if v.Unsure != nil {
			unsure[v.Name] = v.Unsure
		}
	}
	return unread, unsure
}

// functionArg returns an argument of a function at a site.
func functionArg(f *target.File, site *sdt.Site, a function.Arg) bpf.Arg {
	arg := bpf.Arg{
		Arg: a.Arg, Length: a.Length, InPlace: a.InPlace, Dynamic: a.Dynamic, Methods: a.Methods,
		Alias: a.Alias, Pointer: a.Pointer, Constants: a.Constants,
		Ext: a.Ext, Capacity: a.Capacity,
	}
	if a.Dynamic {
		arg.Delta, arg.Names = int64(site.Address), f.TypeNames()
		arg.Data, arg.Texts = a.Data, a.Texts
	}
	return arg
}
