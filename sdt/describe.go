package sdt

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
)

// The limits of the work to find the functions of sites, and types, in a file's DWARF: about 0.1 seconds'
// worth, as debuginfo.Entries counts.
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
// match too. A site inside a function that has another name is left without names, because
// nothing says which of its variables the arguments are.
//
// If ReadTypes returns an error, it has still described the sites that the error does not
// concern. More than 64 MiB of DWARF are an error, and so is more of it than can be read in
// about 0.1 seconds. Units that have none of
// the sites are not read, so pass only the sites that matter.
func ReadTypes(r io.ReaderAt, sites []Site) error {
	f, err := openELF(r)
	if err != nil {
		return err
	}
	d := describer{sites: map[uint64][]*Site{}, ranges: rangeWork}
	for i := range sites {
		p := &sites[i]
		if len(p.Args) > 0 {
			at := f.mask(p.Address + f.shift(p.base))
			d.sites[at] = append(d.sites[at], p)
		}
	}
	if len(d.sites) == 0 {
		return nil
	}
	if d.data, err = debuginfo.Read(f.File, maxDWARF); d.data == nil || err != nil {
		return err
	}
	d.types = newTypes(d.data.Data, int64(f.pick(4, 8)))
	d.entries = debuginfo.Entries{R: d.data.Reader(), Left: functionWork}
	for at := range d.sites {
		d.addrs = append(d.addrs, at)
	}
	slices.Sort(d.addrs)
	for _, u := range d.data.Units {
		if err := d.unit(u); err != nil {
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
	sites   map[uint64][]*Site
	addrs   []uint64 // the keys of sites, in order
	data    *debuginfo.Data
	entries debuginfo.Entries
	ranges  int // the number of ranges that may still be read
	types   *types
	found   []description
	errs    []error
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

// unit walks the functions of a compilation unit that can have sites.
func (d *describer) unit(u debuginfo.Unit) error {
	root, err := d.entries.At(u.Entry)
	if err != nil || root == nil || !root.Children || !d.relevant(root) {
		return err
	}
	// depth counts the enclosing entries. The entries in an opaque one are skipped by
	// reading them, because a sibling attribute could lead anywhere.
	opaque := 0
	for depth := 1; depth > 0; {
		e, err := d.entries.Next()
		if err != nil {
			return err
		}
		switch {
		case e == nil:
			return nil
		case e.Tag == 0:
			depth--
			if depth < opaque {
				opaque = 0
			}
			continue
		case opaque == 0 && e.Tag == dwarf.TagSubprogram:
			done, err := d.function(e)
			if err != nil {
				return err
			}
			if done {
				continue // function has read the children
			}
		}
		if e.Children {
			depth++
			if opaque == 0 && e.Tag != dwarf.TagNamespace {
				opaque = depth
			}
		}
	}
	return nil
}

// relevant reports whether a unit can have a site. A unit whose addresses are not known can.
func (d *describer) relevant(root *dwarf.Entry) bool {
	if d.ranges <= 0 {
		return true
	}
	ranges, err := d.data.Ranges(root)
	d.ranges -= len(ranges) + 1
	for _, r := range ranges {
		if i, _ := slices.BinarySearch(d.addrs, r[0]); i < len(d.addrs) && d.addrs[i] < r[1] {
			return true
		}
	}
	return err != nil || len(ranges) == 0
}

// function collects the parameters of a function at a site. It reports whether it has read
// the entry's children.
func (d *describer) function(e *dwarf.Entry) (bool, error) {
	low, ok := e.Val(dwarf.AttrLowpc).(uint64)
	sites := d.sites[low]
	if !ok || len(sites) == 0 || !e.Children {
		return false, nil
	}
	name, _ := d.types.attr(e, dwarf.AttrName).(string)
	params, rest, err := d.params(e)
	if err != nil {
		return false, err
	}
	for _, p := range sites {
		args := params
		if len(params) == 6 && len(p.Args) > 6 {
			args = slices.Concat(params, rest)
		}
		if p.Name == name && len(args) == len(p.Args) {
			d.found = append(d.found, description{p, args})
		}
	}
	return true, nil
}

// params reads the children of a function.
func (d *describer) params(e *dwarf.Entry) (params, rest []param, err error) {
	err = d.entries.Children(e, func(c *dwarf.Entry) {
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
				d.errs = append(d.errs, fmt.Errorf("%s:%s: argument %d is %s of %d bytes in the note, but %q of type %v in DWARF", f.probe.Provider,
					f.probe.Name, i, &f.probe.Args[i], f.probe.Args[i].Size, f.args[i].name, f.args[i].typ))
			}
			continue
		}
		for i, p := range f.args {
			f.probe.Args[i].Name, f.probe.Args[i].Type = p.name, p.typ
		}
	}
}
