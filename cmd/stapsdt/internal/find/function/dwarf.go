//go:build linux

package function

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
)

const (
	// maxDWARF is the maximum number of bytes of DWARF that are read. The largest Go programs have
	// some 100 MB.
	maxDWARF = 256 << 20
	// functionWork and typeWork limit the work of reading it, in the unit of debuginfo.Entries:
	// each takes about 0.2 seconds. rangeWork is the maximum number of ranges of units that are
	// read.
	functionWork = 1 << 22
	typeWork     = 1 << 21
	rangeWork    = 1 << 18
)

var errNoDWARF = errors.New("the program has no DWARF: it was linked with -w or -s, or stripped")

// signature is the description of a function in DWARF.
type signature struct {
	params, results []param
}

type param struct {
	name string
	typ  *goType
}

// debugging reads the DWARF of a program.
type debugging struct {
	err       error // the reason why there is no DWARF, or nil
	separate  bool  // it is in a file of its own
	functions debuginfo.Functions
	types     types
	// constants are the packages whose constants were read.
	constants       map[string]bool
	constantEntries debuginfo.Entries
}

// Separate lends the file with the debug information that was separated from a program to use.
// Otherwise the error tells where it was looked for.
type Separate func(program *elf.File, use func(debug *elf.File)) error

// newDebugging reads the DWARF of a program or, if the program has none, that of its debug file,
// unless separate is nil.
func newDebugging(f *elf.File, separate Separate) *debugging {
	d := &debugging{}
	if debuginfo.In(f) {
		d.read(f)
		return d
	}
	d.err = errNoDWARF
	if separate == nil {
		return d
	}
	err := separate(f, func(debug *elf.File) {
		d.err, d.separate = nil, true
		d.read(debug)
	})
	if err != nil {
		d.err = fmt.Errorf("%w; %w", errNoDWARF, err)
	}
	return d
}

func (d *debugging) read(f *elf.File) {
	data, err := debuginfo.Read(f, maxDWARF)
	switch {
	case err != nil:
		d.err = err
	case data == nil:
		d.err = errNoDWARF
	default:
		entries := func(work int) debuginfo.Entries {
			return debuginfo.Entries{R: data.Reader(), Left: work}
		}
		d.functions = debuginfo.Functions{
			Entries: entries(functionWork), Data: data, Ranges: rangeWork,
		}
		d.constantEntries = entries(constantWork)
		d.types.known = map[asked]*answer{}
		d.types.entries = entries(typeWork)
	}
}

// signatures reads the signatures of functions, and calls found with each, or with the reason why
// there is none.
func (d *debugging) signatures(fns []*Function, found func(*Function, *signature, error)) {
	left := map[uint64]*Function{}
	for _, fn := range fns {
		left[fn.Entry] = fn
	}
	err := d.err
	if err == nil {
		d.functions.Wanted = slices.Sorted(maps.Keys(left))
		for _, u := range d.functions.Data.Units {
			if len(left) == 0 || err != nil {
				break
			}
			err = d.functions.In(u, func(at uint64, e *dwarf.Entry) error {
				s, err := d.signature(e)
				if errors.Is(err, debuginfo.ErrBudget) {
					return err
				}
				if fn := left[at]; fn != nil {
					if d.separate {
						err = cmp.Or(d.names(e, fn), err)
					}
					found(fn, s, err)
					delete(left, at)
				}
				return nil
			})
		}
	}
	for _, fn := range left {
		found(fn, nil, cmp.Or(err, errors.New("its DWARF does not describe the function")))
	}
}

var errOther = errors.New("its debug file describes another function at this address")

// names returns an error unless an entry of a debug file has the name of a function, as the
// program's own table of functions has it.
func (d *debugging) names(e *dwarf.Entry, fn *Function) error {
	if origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
		abstract, err := d.types.entries.At(origin)
		if err != nil || abstract == nil {
			return cmp.Or(err, errOther)
		}
		e = abstract
	}
	if name, _ := e.Val(dwarf.AttrName).(string); spec.Unescape(name) != fn.Name {
		return errOther
	}
	return nil
}

// signature reads all children of a function's entry, including its parameters, which come next.
func (d *debugging) signature(e *dwarf.Entry) (*signature, error) {
	s := &signature{}
	var wrong error
	err := d.functions.Children(e, func(c *dwarf.Entry) {
		if c.Tag == dwarf.TagFormalParameter && wrong == nil {
			wrong = s.add(&d.types, c)
		}
	})
	if err == nil && errors.Is(wrong, debuginfo.ErrBudget) {
		err = wrong
	}
	if err != nil {
		return nil, err
	}
	return s, wrong
}

// add adds a parameter or a result.
func (s *signature) add(t *types, e *dwarf.Entry) error {
	name, isName := e.Val(dwarf.AttrName).(string)
	at, isType := e.Val(dwarf.AttrType).(dwarf.Offset)
	result, isResult := e.Val(dwarf.AttrVarParam).(bool)
	if origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
		abstract, err := t.entries.At(origin)
		if err != nil || abstract == nil || abstract.Tag != dwarf.TagFormalParameter {
			return errors.Join(errType, err)
		}
		name, isName = abstract.Val(dwarf.AttrName).(string)
		at, isType = abstract.Val(dwarf.AttrType).(dwarf.Offset)
		result, isResult = abstract.Val(dwarf.AttrVarParam).(bool)
	}
	if !isName || !isType {
		return fmt.Errorf("%w: the type of the parameter %.64q", errType, name)
	}
	typ, err := t.read(at, toFields, 0)
	if err != nil {
		if opaque := t.opaque(at, err); opaque != nil {
			typ, err = opaque, nil
		}
	}
	if err != nil {
		return fmt.Errorf("the parameter %.64q: %w", name, err)
	}
	if len(name) > maxName {
		name = name[:maxName]
	}
	// The compiler lists some results twice.
	same := func(q param) bool { return q.name == name && name != "_" }
	if slices.ContainsFunc(s.params, same) || slices.ContainsFunc(s.results, same) {
		return nil
	}
	if isResult && result {
		s.results = append(s.results, param{name, typ})
	} else {
		s.params = append(s.params, param{name, typ})
	}
	return nil
}
