package sdt

import (
	"cmp"
	"debug/dwarf"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
)

// The limits of the work to find the functions of sites, and types, in a file's DWARF: about 0.1
// seconds' worth, as debuginfo.Entries counts.
const (
	maxDWARF     = 64 << 20
	functionWork = 1 << 21
	typeWork     = 1 << 19
	rangeWork    = 1 << 17 // ranges of addresses
)

// ReadTypes sets the Name and Type of the arguments of sites, as far as the DWARF of an
// ELF file describes them: the file that the sites were read from, or the file with its
// debugging information. Without DWARF it does nothing.
//
// A probe is described by a function at the address of its site that has the probe's name
// and, in order, its arguments as parameters. Arguments after the sixth may be variables of
// the function instead. That is how stapsdt writes them, and C functions that are probes
// match too. The arguments of a site inside a function with another name get no names,
// because nothing identifies them among its variables.
//
// If ReadTypes returns an error, it has still described the sites that the error does not
// concern. More than 64 MiB of DWARF are an error, and so is DWARF that takes more than a fixed
// amount of work to read, which is some 0.1 seconds. Units that have none of
// the sites are not read, so pass only the sites that matter.
func ReadTypes(r io.ReaderAt, sites []Site) error {
	f, err := openELF(r)
	if err != nil {
		return err
	}
	d := describer{sites: make([]located, 0, len(sites))}
	for i := range sites {
		if p := &sites[i]; len(p.Args) > 0 {
			d.sites = append(d.sites, located{f.mask(p.Address + f.shift(p.base)), p})
		}
	}
	if len(d.sites) == 0 {
		return nil
	}
	data, err := debuginfo.Read(f.File, maxDWARF)
	if data == nil || err != nil {
		return err
	}
	slices.SortStableFunc(d.sites, func(a, b located) int { return cmp.Compare(a.at, b.at) })
	wanted := make([]uint64, len(d.sites))
	for i := range d.sites {
		wanted[i] = d.sites[i].at
	}
	d.types = newTypes(data.Data, int64(f.pick(4, 8)))
	d.functions = debuginfo.Functions{
		Entries: debuginfo.Entries{R: data.Reader(), Left: functionWork}, Data: data,
		Wanted: slices.Compact(wanted), Ranges: rangeWork,
	}
	for _, u := range data.Units {
		if err := d.functions.In(u, d.function); err != nil {
			d.errs = append(d.errs, fmt.Errorf(".debug_info+%#x: %w", u.Offset, err))
			if errors.Is(err, debuginfo.ErrBudget) || len(d.errs) > maxErrors {
				break
			}
		}
	}
	if err := d.types.resolve(); err != nil {
		d.errs = append(d.errs, err)
	}
	d.assign()
	return errors.Join(d.errs...)
}

// describer looks for the functions at the sites of probes.
type describer struct {
	sites     []located // in the order of their addresses
	functions debuginfo.Functions
	types     *types
	found     []description
	errs      []error
}

// located is a site with its address in the file.
type located struct {
	at uint64
	*Site
}

// description holds the arguments that DWARF has for a probe.
type description struct {
	probe *Site
	args  []param
}

type param struct {
	name string
	typ  *Type
}

// function collects the parameters of a function at a site.
func (d *describer) function(at uint64, e *dwarf.Entry) error {
	name, _ := d.types.attr(e, dwarf.AttrName).(string)
	params, rest, err := d.params(e)
	if err != nil {
		return err
	}
	i, _ := slices.BinarySearchFunc(
		d.sites, at, func(s located, at uint64) int { return cmp.Compare(s.at, at) },
	)
	for ; i < len(d.sites) && d.sites[i].at == at; i++ {
		p, args := d.sites[i].Site, params
		if len(params) == 6 && len(p.Args) > 6 {
			args = slices.Concat(params, rest)
		}
		if p.Name == name && len(args) == len(p.Args) {
			d.found = append(d.found, description{p, args})
		}
	}
	return nil
}

// params reads the children of a function.
func (d *describer) params(e *dwarf.Entry) (params, rest []param, err error) {
	err = d.functions.Children(e, func(c *dwarf.Entry) {
		switch c.Tag {
		case dwarf.TagFormalParameter:
			params = append(params, d.param(c))
		case dwarf.TagVariable:
			rest = append(rest, d.param(c))
		}
	})
	return params, rest, err
}

func (d *describer) param(e *dwarf.Entry) param {
	var p param
	p.name = short(d.types.attr(e, dwarf.AttrName))
	if at, ok := d.types.attr(e, dwarf.AttrType).(dwarf.Offset); ok {
		p.typ = d.types.of(at)
	}
	return p
}

// assign gives the arguments their names and types, when all types are resolved. A type
// whose size is not the argument's describes something else.
func (d *describer) assign() {
	for _, f := range d.found {
		i := slices.IndexFunc(f.args, func(p param) bool { return p.name == "" || p.typ == nil })
		for j := 0; i < 0 && j < len(f.args); j++ {
			if int64(f.probe.Args[j].Size) != f.args[j].typ.Size {
				i = j
			}
		}
		if i >= 0 {
			if len(d.errs) < maxErrors {
				d.errs = append(d.errs, fmt.Errorf(
					"%s:%s: argument %d is %s of %d bytes in the note, but %q of type %v in DWARF",
					f.probe.Provider,
					f.probe.Name,
					i,
					&f.probe.Args[i],
					f.probe.Args[i].Size,
					f.args[i].name,
					f.args[i].typ,
				))
			}
			continue
		}
		for i, p := range f.args {
			f.probe.Args[i].Name, f.probe.Args[i].Type = p.name, p.typ
		}
	}
}
