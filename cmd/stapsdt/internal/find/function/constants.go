//go:build linux

package function

import (
	"debug/dwarf"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
)

const (
	// constantWork limits the work of reading the constants of a program.
	constantWork = 1 << 22
	// maxConstants is the maximum number of constants of a type.
	maxConstants = 1 << 10
)

// constants returns the constants of the type at an offset, or nil if it is not a defined type of
// integers. They are empty until its package is read.
func (t *types) constants(at dwarf.Offset, typ *goType) value.Constants {
	kind := kinds[typ.kind].kind
	isInteger := kind == kinds[reflect.Int].kind || kind == kinds[reflect.Uint].kind
	if !isInteger || packageOf(typ.name) == "" {
		return nil
	}
	if t.integers == nil {
		t.integers = map[dwarf.Offset]value.Constants{}
	}
	if t.integers[at] == nil {
		t.integers[at] = value.Constants{}
	}
	return t.integers[at]
}

// packageOf returns the import path in the name of a defined type, or "". Types with arguments and
// those of functions have no constants of their own.
func packageOf(name string) string {
	dot := strings.LastIndexByte(name, '.')
	if dot <= strings.LastIndexByte(name, '/') || strings.ContainsAny(name, "[·") {
		return ""
	}
	return name[:dot]
}

// readConstants reads the constants of the packages that define the types of integers among the
// arguments and results of functions.
func (d *debugging) readConstants(fns []*Function) {
	wanted := map[string]bool{}
	for _, fn := range fns {
		for _, a := range slices.Concat(fn.Args, fn.Results) {
			if a.Constants != nil && !d.constants[packageOf(a.Type.Name)] {
				wanted[packageOf(a.Type.Name)] = true
			}
		}
	}
	if len(wanted) == 0 {
		return
	}
	if d.constants == nil {
		d.constants = map[string]bool{}
	}
	maps.Copy(d.constants, wanted)
	for _, u := range d.functions.Data.Units {
		root, err := d.constantEntries.At(u.Entry)
		if err != nil || len(wanted) == 0 {
			return // the names are missing, and the values are shown
		}
		if root == nil || !wanted[nameOf(root)] {
			continue
		}
		_ = d.constantEntries.Children(root, d.constant)
	}
}

// constant adds a constant to those of its type. Several constants of one value have the name of
// the first.
func (d *debugging) constant(e *dwarf.Entry) {
	at, isTyped := e.Val(dwarf.AttrType).(dwarf.Offset)
	value, isConstant := e.Val(dwarf.AttrConstValue).(int64)
	if e.Tag != dwarf.TagConstant || !isTyped || !isConstant {
		return
	}
	name := nameOf(e)
	name = name[strings.LastIndexByte(name, '.')+1:]
	all := d.types.integers[at]
	if all == nil || len(all) == maxConstants || all[uint64(value)] != "" {
		return
	}
	all[uint64(value)] = name
}
